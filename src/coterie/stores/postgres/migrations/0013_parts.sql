-- A request to cancel reopens an offer, too: if the task's machine does not respond, the one that
-- takes it over ends it.

DROP TRIGGER words_wake_offers ON requests;

CREATE TRIGGER words_wake_offers AFTER INSERT ON requests
FOR EACH ROW WHEN (NEW.kind IN ('say', 'end', 'cancel'))
EXECUTE FUNCTION wake_offer_answered();

-- The name under which a commit was sent to the repository that branches travel by.
ALTER TABLE sent_refs ADD COLUMN remote_ref string;

-- An offer that a machine refused is not queued, as that machine would be handed it again: other
-- machines query for it, every second.

CREATE INDEX offers_refused ON offers (task_id) WHERE state = 'open' AND refused <> '{}';

-- Whether a machine takes members that never ask: a session offers those to no other machine.

ALTER TABLE machines ADD COLUMN allows_full boolean NOT NULL DEFAULT false;

-- The id of this history; it changes when a restored backup is deliberately continued.  How far the
-- history goes is also recorded on every machine.

ALTER TABLE project ADD COLUMN history string NOT NULL DEFAULT gen_random_uuid()::text;
