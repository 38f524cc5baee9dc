ALTER TABLE turns ADD COLUMN machine string;

-- Tasks that are to be run by whichever machine can.  Whether somebody runs one is told by its
-- lease alone.  The queue holds a job for what is due while nobody does; it may lose that or have it
-- twice.

CREATE TABLE offers (
    task_id string PRIMARY KEY,
    pool string NOT NULL,                  -- seat: runs agents; session: waits for others
    needs string NOT NULL,                 -- JSON: what a machine must have or allow, in order
    machine string,                        -- which alone may take it; NULL: any
    state string NOT NULL,                 -- open: to be run; held: not before an answer or a word
    due TIMESTAMPTZ,                       -- not before
    woken BIGINT NOT NULL DEFAULT 0,       -- how often something has happened that is to be looked at
    taker string,                          -- the owner that has it in hand; NULL: nobody
    job BIGINT,                            -- the queue's; NULL: none
    refused string NOT NULL DEFAULT '{}'   -- JSON: why machines do not take it, by their names
);

-- All machines look for these, every second and whenever something happens.
CREATE INDEX offers_open ON offers (state) WHERE state = 'open';
CREATE INDEX offers_unqueued ON offers (task_id)
WHERE state = 'open' AND job IS NULL AND taker IS NULL;
CREATE INDEX offers_in_hand ON offers (taker) WHERE taker IS NOT NULL;
CREATE INDEX owners_dead ON owners (id) WHERE dead;

-- An answer or a word to a task, or to one below it, opens its offer again.  Whatever state it is
-- in: the row is waited for, so that it cannot be held at the same moment for want of an answer.

CREATE FUNCTION wake_offer(task string) RETURNS void LANGUAGE sql AS $$
    UPDATE offers SET woken = woken + 1, state = 'open', due = NULL
    WHERE task_id IN (task, split_part(task, '/', 1))
$$;

CREATE FUNCTION wake_offer_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wake_offer(NEW.task_id);
    RETURN NULL;
END $$;

CREATE TRIGGER answers_wake_offers AFTER UPDATE OF state ON questions
FOR EACH ROW WHEN (OLD.state = 'open' AND NEW.state <> 'open')
EXECUTE FUNCTION wake_offer_answered();

CREATE TRIGGER words_wake_offers AFTER INSERT ON requests
FOR EACH ROW WHEN (NEW.kind IN ('say', 'end'))
EXECUTE FUNCTION wake_offer_answered();

-- Nobody is to run what has ended.

CREATE FUNCTION drop_offer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM offers WHERE task_id = NEW.id;
    IF NEW.parent_id IS NOT NULL THEN
        PERFORM wake_offer(NEW.session_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER ended_tasks_are_not_offered AFTER UPDATE OF status ON tasks
FOR EACH ROW WHEN (NEW.status IN ('completed', 'failed', 'canceled'))
EXECUTE FUNCTION drop_offer();

-- What goes from machine to machine beside rows: commits as bundles, artifacts, logs.  In parts, by
-- the digest of the whole.

CREATE TABLE blobs (
    digest string NOT NULL,
    place BIGINT NOT NULL,
    session_id string NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (digest, place)
);

ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX blobs_of_session ON blobs (session_id);

-- The branches of a session, as they were last sent: whoever goes on with it begins there.

CREATE TABLE sent_refs (
    session_id string NOT NULL,
    name string NOT NULL,                  -- a ticket, or that of all that is approved
    commit string NOT NULL,
    digest string,                         -- of the bundle that has it; NULL: every clone has it
    PRIMARY KEY (session_id, name)
);

-- Its files, as they were last sent: artifacts, logs of checks, the state of a pipeline.

CREATE TABLE sent_files (
    session_id string NOT NULL,
    path string NOT NULL,                  -- below the session's folder
    digest string NOT NULL,
    PRIMARY KEY (session_id, path)
);

-- What a session's envelopes are signed with, for whoever holds its lease.

CREATE TABLE session_keys (
    session_id string PRIMARY KEY,
    key BYTEA NOT NULL
);

-- For how long an owner that is silent keeps its tasks, in seconds: the same for all machines.

ALTER TABLE project ADD COLUMN ttl DOUBLE PRECISION NOT NULL DEFAULT 60;

-- Which migrations of the queue, in the schema `dispatch`, were run.

CREATE TABLE queue_migrations (
    name string PRIMARY KEY
);
