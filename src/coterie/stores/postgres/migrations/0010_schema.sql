-- The schema that SQLite's migrations 0001 to 0010 result in: PostgreSQL starts here, and from 0011
-- on both have a file for every number.  Columns are explained there; here is what differs.

-- Compared and sorted byte by byte, whatever the database's locale.
CREATE DOMAIN string AS TEXT COLLATE "C";

-- All appends share one row: a transaction that appends to a chain or to the timeline locks it
-- until it commits, so numbers have no gaps and grow from commit to commit.
CREATE TABLE head (
    events BIGINT NOT NULL,
    events_hash BYTEA NOT NULL,
    audit BIGINT NOT NULL,
    audit_hash BYTEA NOT NULL,
    timeline BIGINT NOT NULL
) WITH (fillfactor = 10);

INSERT INTO head VALUES (0, '', 0, '', 0);

CREATE TABLE events (
    sequence BIGINT PRIMARY KEY,
    task_id string NOT NULL,
    type string NOT NULL,
    at string NOT NULL,
    data string NOT NULL,
    hash BYTEA NOT NULL
);

CREATE INDEX events_of_task ON events (task_id, sequence);

CREATE TABLE audit (
    sequence BIGINT PRIMARY KEY,
    task_id string NOT NULL,
    kind string NOT NULL,
    tool_call_id string NOT NULL,
    tool_name string NOT NULL,
    author_actor_id string NOT NULL,
    timestamp string NOT NULL,
    input string,
    output string,
    is_error INTEGER,
    duration_ms BIGINT,
    hash BYTEA NOT NULL
);

CREATE INDEX calls_of_task ON audit (task_id, tool_call_id);

CREATE TABLE tasks (
    id string PRIMARY KEY,
    created BIGINT NOT NULL,
    session_id string NOT NULL,
    parent_id string,
    workflow string NOT NULL,
    title string NOT NULL,
    status string NOT NULL,
    reason string NOT NULL,
    created_at string NOT NULL,
    changed_at string NOT NULL
);

CREATE INDEX tasks_below ON tasks (parent_id) WHERE parent_id IS NOT NULL;

CREATE VIEW with_tickets (task_id, id) AS
SELECT id, id FROM tasks
UNION ALL
SELECT parent_id, id FROM tasks WHERE parent_id IS NOT NULL AND workflow = 'ticket';

CREATE TABLE questions (
    id string PRIMARY KEY,
    task_id string NOT NULL,
    step string NOT NULL,
    state string NOT NULL,
    requested BIGINT NOT NULL,
    responded BIGINT,
    once string
);

CREATE INDEX questions_open ON questions (task_id) WHERE state = 'open';
CREATE UNIQUE INDEX questions_once ON questions (once) WHERE state = 'open' AND once IS NOT NULL;

CREATE TABLE messages (
    task_id string NOT NULL,
    seq BIGINT NOT NULL,
    member string NOT NULL,
    text string NOT NULL,
    at string NOT NULL,
    turn BIGINT NOT NULL,
    next string,
    done INTEGER NOT NULL,
    cut INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, seq)
);

CREATE TABLE steps (
    task_id string NOT NULL,
    name string NOT NULL,
    kind string NOT NULL,
    digest string NOT NULL,
    input string NOT NULL,
    result string,
    opened BIGINT NOT NULL,
    PRIMARY KEY (task_id, name)
);

CREATE TABLE turns (
    task_id string NOT NULL,
    step string NOT NULL,
    attempt BIGINT NOT NULL,
    member string NOT NULL,
    token BIGINT NOT NULL,
    opened_at string NOT NULL,
    thread string,
    closed_at string,
    outcome string,
    detail string,
    usage string,
    opened BIGINT NOT NULL,
    PRIMARY KEY (task_id, step, attempt)
);

CREATE INDEX turns_failed ON turns (task_id, opened) WHERE outcome = 'failed';

-- The order in which steps and turns were opened; it grows across all tasks, with gaps.
CREATE SEQUENCE opened;

CREATE TABLE threads (
    thread string NOT NULL,
    place BIGINT NOT NULL,
    task_id string NOT NULL,
    entry string NOT NULL,
    PRIMARY KEY (thread, place)
);

CREATE TABLE envelopes (
    session_id string NOT NULL,
    sequence BIGINT NOT NULL,
    body string NOT NULL,
    PRIMARY KEY (session_id, sequence)
);

CREATE TABLE tickets (
    session_id string NOT NULL,
    id string NOT NULL,
    made BIGINT NOT NULL,
    state string NOT NULL,
    body string NOT NULL,
    PRIMARY KEY (session_id, id)
);

CREATE UNIQUE INDEX tickets_in_order ON tickets (session_id, made);

CREATE TABLE ticket_history (
    session_id string NOT NULL,
    ticket_id string NOT NULL,
    place BIGINT NOT NULL,
    at string NOT NULL,
    event string NOT NULL,
    message string NOT NULL,
    PRIMARY KEY (session_id, ticket_id, place)
);

CREATE TABLE leases (
    task_id string PRIMARY KEY,
    owner string NOT NULL,
    token BIGINT NOT NULL,
    state string NOT NULL
);

CREATE TABLE children (
    mark string PRIMARY KEY,
    task_id string NOT NULL,
    member string NOT NULL,
    agent string NOT NULL,
    boot_id string,
    pid_namespace string,
    host string NOT NULL,
    started_at string NOT NULL,
    pid BIGINT
);

CREATE TABLE requests (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id string NOT NULL,
    kind string NOT NULL,
    author string NOT NULL,
    text string NOT NULL,
    at string NOT NULL
);

CREATE TABLE member_states (
    task_id string NOT NULL,
    member string NOT NULL,
    state string NOT NULL,
    reason string NOT NULL,
    since string NOT NULL,
    waits_for string,
    until string,
    PRIMARY KEY (task_id, member)
);

CREATE TABLE counters (
    name string PRIMARY KEY,
    value BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('question', 0), ('reservation', 0);

CREATE TABLE reservations (
    task_id string NOT NULL,
    step string NOT NULL,
    member string NOT NULL,
    at string NOT NULL,
    run string NOT NULL,
    token BIGINT NOT NULL,
    PRIMARY KEY (task_id, step)
);

CREATE TABLE notifications (
    incident string PRIMARY KEY,
    task_id string NOT NULL,
    at string NOT NULL,
    state string NOT NULL,
    problem string NOT NULL
);

CREATE INDEX notifications_due ON notifications (at) WHERE state = 'due';

CREATE TABLE timeline (
    sequence BIGINT PRIMARY KEY,
    task_id string NOT NULL,
    source string NOT NULL,
    number BIGINT NOT NULL,
    run string NOT NULL GENERATED ALWAYS AS (split_part(task_id, '/', 1)) STORED
);

CREATE INDEX timeline_of_run ON timeline (run, sequence) WHERE source <> 'message';

CREATE VIEW timeline_span (run, first, last) AS
SELECT
    id,
    (SELECT min(sequence) FROM timeline WHERE run = id AND source <> 'message'),
    CASE WHEN status IN ('completed', 'failed', 'canceled')
    THEN (SELECT max(sequence) FROM timeline WHERE run = id AND source <> 'message')
    ELSE 9223372036854775807 END
FROM tasks;

-- Only for several machines: each connection's last commit, processes that own leases, machines.

CREATE TABLE writers (
    id string PRIMARY KEY,
    batch BIGINT NOT NULL,                 -- the number of its last commit
    told string NOT NULL,                  -- the answers of that commit
    opened_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE owners (
    id string PRIMARY KEY,
    machine string NOT NULL,
    beat BIGINT NOT NULL,
    dead BOOLEAN NOT NULL,
    started_at string NOT NULL,
    version string NOT NULL
);

CREATE TABLE machines (
    name string PRIMARY KEY,
    agents string NOT NULL,                -- JSON
    seats BIGINT NOT NULL,
    root_commit string,
    version string NOT NULL,
    seen string NOT NULL
);

-- The project whose tasks these are: one row, written by `coterie store init`.

CREATE TABLE project (
    name string NOT NULL,                  -- for display
    root_commit string NOT NULL            -- the first commit of its repository; '' if it has none
);

-- The chains are append-only.

CREATE FUNCTION never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
END $$;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION never_changed();

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION never_changed();

-- The timeline is maintained by triggers.

CREATE FUNCTION tell(task string, what string, which BIGINT) RETURNS void LANGUAGE plpgsql AS $$
DECLARE place BIGINT;
BEGIN
    UPDATE head SET timeline = timeline + 1 RETURNING timeline INTO place;
    INSERT INTO timeline (sequence, task_id, source, number) VALUES (place, task, what, which);
END $$;

CREATE FUNCTION tell_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell(
        NEW.task_id,
        CASE WHEN NEW.type LIKE 'UserInteraction%' THEN 'question' ELSE 'status' END,
        NEW.sequence
    );
    RETURN NULL;
END $$;

CREATE FUNCTION tell_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell(NEW.task_id, 'message', NEW.seq);
    RETURN NULL;
END $$;

CREATE FUNCTION tell_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell(NEW.task_id, 'call', NEW.sequence);
    RETURN NULL;
END $$;

CREATE FUNCTION tell_failure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell(NEW.task_id, 'failure', NEW.opened);
    RETURN NULL;
END $$;

CREATE FUNCTION tell_ticket() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell(NEW.session_id || '/' || NEW.ticket_id, 'ticket', NEW.place);
    RETURN NULL;
END $$;

CREATE TRIGGER timeline_of_events AFTER INSERT ON events
FOR EACH ROW EXECUTE FUNCTION tell_event();

CREATE TRIGGER timeline_of_messages AFTER INSERT ON messages
FOR EACH ROW WHEN (NEW.text <> '') EXECUTE FUNCTION tell_message();

CREATE TRIGGER timeline_of_calls AFTER INSERT ON audit
FOR EACH ROW EXECUTE FUNCTION tell_call();

CREATE TRIGGER timeline_of_failures AFTER UPDATE OF outcome ON turns
FOR EACH ROW WHEN (OLD.outcome IS NULL AND NEW.outcome = 'failed')
EXECUTE FUNCTION tell_failure();

CREATE TRIGGER timeline_of_tickets AFTER INSERT ON ticket_history
FOR EACH ROW EXECUTE FUNCTION tell_ticket();

-- A commit is one message: its number, its fences, its writes, its answers.  What cannot follow
-- raises with a code of our own, so nothing has to be read before writing:
--   CT001 the lease is lost        CT002 a write that cannot follow     CT003 an event that cannot
--   CT004 the caller's condition does not hold: not an error, no effect
--   CT005 the message was committed before

CREATE FUNCTION begin_batch(writer string, number BIGINT, note string)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Must come first: the same batch may be in progress on a connection that was cut.
    UPDATE writers SET batch = number, told = '' WHERE id = writer AND batch = number - 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'batch % was committed before', number USING ERRCODE = 'CT005';
    END IF;
    PERFORM pg_notify('coterie', note);
END $$;

CREATE FUNCTION hold(task string, held BIGINT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Anything weaker lets a claim through while this commit is in progress.
    PERFORM 1 FROM leases WHERE task_id = task AND token = held FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease is lost' USING ERRCODE = 'CT001', DETAIL = task, HINT = held;
    END IF;
END $$;

CREATE FUNCTION must(is_so BOOLEAN, problem string, code string DEFAULT 'CT002')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_so IS NOT TRUE THEN
        RAISE EXCEPTION USING MESSAGE = problem, ERRCODE = code;
    END IF;
END $$;

CREATE FUNCTION answer(value BIGINT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Collected until the end of the commit, which stores it with its number: an answer that is
    -- lost in transit can be asked for again.
    PERFORM set_config(
        'coterie.told',
        coalesce(current_setting('coterie.told', true), '') || coalesce(value::TEXT, '') || ';',
        true
    );
END $$;

CREATE FUNCTION keep_answers(writer string) RETURNS string LANGUAGE sql AS $$
    UPDATE writers SET told = current_setting('coterie.told') WHERE id = writer RETURNING told
$$;

-- `tail` is the row as JSON after its number; the hash covers the whole row.

CREATE FUNCTION append_event(
    task string, kind string, moment string, body string, tail string, follows JSON, why string
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    place BIGINT;
    previous BYTEA;
    own BYTEA;
    was string;
    following string;
BEGIN
    UPDATE head SET events = events + 1 RETURNING events, events_hash INTO place, previous;
    SELECT status INTO was FROM tasks WHERE id = task;
    IF follows IS NULL THEN
        PERFORM must(was IS NULL, task || ' was created twice', 'CT003');
    ELSE
        PERFORM must(was IS NOT NULL, kind || ' before TaskCreated', 'CT003');
        following := follows ->> was;
        PERFORM must(
            following IS NOT NULL, kind || ' cannot follow in a task that is ' || was, 'CT003'
        );
        UPDATE tasks SET status = following, reason = why, changed_at = moment WHERE id = task;
    END IF;
    own := sha256(previous || convert_to('[' || place || ',' || tail, 'UTF8'));
    INSERT INTO events (sequence, task_id, type, at, data, hash)
    VALUES (place, task, kind, moment, body, own);
    UPDATE head SET events_hash = own;
END $$;

CREATE FUNCTION respond(task string, question string, becomes string)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE questions SET state = becomes, responded = (SELECT events FROM head)
    WHERE id = question AND task_id = task AND state = 'open';
    PERFORM must(FOUND, question || ' is not open', 'CT003');
    UPDATE tasks SET status = 'running'
    WHERE id = task
    AND NOT EXISTS (SELECT 1 FROM questions WHERE task_id = task AND state = 'open');
END $$;

CREATE FUNCTION next_audit(tail string, OUT place BIGINT, OUT own BYTEA)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE head SET audit = audit + 1 RETURNING audit, audit_hash INTO place, own;
    own := sha256(own || convert_to('[' || place || ',' || tail, 'UTF8'));
    UPDATE head SET audit_hash = own;
END $$;
