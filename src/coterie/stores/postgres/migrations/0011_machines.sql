ALTER TABLE turns ADD COLUMN machine string;

-- Tasks that any suitable machine may run.  Only its lease tells whether a task is being run.
-- The queue holds a job for what is due while nobody runs it; it may lose a job, or have it twice.

CREATE TABLE offers (
    task_id string PRIMARY KEY,
    pool string NOT NULL,                  -- seat: runs agents; session: waits for others
    needs string NOT NULL,                 -- JSON: what a machine must have or allow, sorted
    machine string,                        -- the only one that may take it; NULL: any
    state string NOT NULL,                 -- open: to be run; held: not before an answer or request
    due TIMESTAMPTZ,                       -- not before
    woken BIGINT NOT NULL DEFAULT 0,       -- how often an event has called for a new look at it
    taker string,                          -- the owner that has taken it; NULL: nobody
    job BIGINT,                            -- its id in the queue; NULL: none
    refused string NOT NULL DEFAULT '{}'   -- JSON: why machines refused it, by machine
);

-- All machines query these, every second and whenever something happens.
CREATE INDEX offers_open ON offers (state) WHERE state = 'open';
CREATE INDEX offers_unqueued ON offers (task_id)
WHERE state = 'open' AND job IS NULL AND taker IS NULL;
CREATE INDEX offers_in_hand ON offers (taker) WHERE taker IS NOT NULL;
CREATE INDEX owners_dead ON owners (id) WHERE dead;

-- An answer or request to a task, or to one below it, reopens its offer, whatever its state: the
-- update waits for the row, so that it cannot be held at the same moment for lack of an answer.

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

-- Tasks that have ended are not offered.

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

-- What machines exchange besides rows: commits as bundles, artifacts, logs.  Stored in parts, by
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

-- The branches of a session as they were last sent: the next machine to run it starts from them.

CREATE TABLE sent_refs (
    session_id string NOT NULL,
    name string NOT NULL,                  -- a ticket, or the branch of all approved work
    commit string NOT NULL,
    digest string,                         -- of the bundle that holds it; NULL: every clone has it
    PRIMARY KEY (session_id, name)
);

-- The session's files as they were last sent: artifacts, logs of checks, the state of a pipeline.

CREATE TABLE sent_files (
    session_id string NOT NULL,
    path string NOT NULL,                  -- below the session's folder
    digest string NOT NULL,
    PRIMARY KEY (session_id, path)
);

-- The key that a session's envelopes are signed with, for the holder of its lease.

CREATE TABLE session_keys (
    session_id string PRIMARY KEY,
    key BYTEA NOT NULL
);

-- For how long a silent owner keeps its tasks, in seconds; the same for all machines.

ALTER TABLE project ADD COLUMN ttl DOUBLE PRECISION NOT NULL DEFAULT 60;

-- The migrations of the queue, in the schema `dispatch`, that have been run.

CREATE TABLE queue_migrations (
    name string PRIMARY KEY
);
