-- That a task is canceled opens its offer, too: whoever goes on with one whose machine did not answer
-- ends it.

DROP TRIGGER words_wake_offers ON requests;

CREATE TRIGGER words_wake_offers AFTER INSERT ON requests
FOR EACH ROW WHEN (NEW.kind IN ('say', 'end', 'cancel'))
EXECUTE FUNCTION wake_offer_answered();

-- What a commit was sent as to the repository that branches travel by.
ALTER TABLE sent_refs ADD COLUMN remote_ref string;

-- What a machine refused is not queued, for it would be handed to that machine again: others look for
-- it, every second.

CREATE INDEX offers_refused ON offers (task_id) WHERE state = 'open' AND refused <> '{}';

-- Whether a machine takes members that never ask: a session asks nobody else for those.

ALTER TABLE machines ADD COLUMN allows_full boolean NOT NULL DEFAULT false;

-- Which history this is: another one since a backup was put back and gone on with on purpose.  How
-- far it goes is known on every machine, too.

ALTER TABLE project ADD COLUMN history string NOT NULL DEFAULT gen_random_uuid()::text;
