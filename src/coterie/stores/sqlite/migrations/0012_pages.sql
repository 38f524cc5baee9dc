-- A commit writes whole pages, one of every table and index that it touches: a turn should touch few.

-- Messages are stored under their number in the timeline, without a second row there.  Rows that
-- are only ever appended fill their pages, and split none.

CREATE TABLE new_messages (
    sequence INTEGER PRIMARY KEY,          -- in the timeline; below 0 for what says nothing
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    member TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    turn INTEGER NOT NULL,
    next TEXT,
    done INTEGER NOT NULL,
    cut INTEGER NOT NULL DEFAULT 0,
    run TEXT AS (                          -- the task, of a ticket its session
        CASE instr(task_id, '/') WHEN 0 THEN task_id
        ELSE substr(task_id, 1, instr(task_id, '/') - 1) END
    )
) STRICT;

INSERT INTO new_messages (sequence, task_id, seq, member, text, at, turn, next, done, cut)
SELECT t.sequence, m.task_id, m.seq, m.member, m.text, m.at, m.turn, m.next, m.done, m.cut
FROM messages AS m
JOIN timeline AS t ON t.source = 'message' AND t.task_id = m.task_id AND t.number = m.seq;

INSERT INTO new_messages (sequence, task_id, seq, member, text, at, turn, next, done, cut)
SELECT -row_number() OVER (ORDER BY at), task_id, seq, member, text, at, turn, next, done, cut
FROM messages WHERE text = '';

DROP TABLE messages;
ALTER TABLE new_messages RENAME TO messages;
CREATE UNIQUE INDEX messages_of_task ON messages (task_id, seq);

-- Everything else in the timeline.

DROP VIEW timeline_span;
DROP INDEX timeline_of_run;
DROP TRIGGER timeline_of_events;
DROP TRIGGER timeline_of_calls;
DROP TRIGGER timeline_of_failures;
DROP TRIGGER timeline_of_tickets;
DELETE FROM timeline WHERE source = 'message';
ALTER TABLE timeline RENAME TO told;
CREATE INDEX told_of_run ON told (run, sequence);

CREATE VIEW timeline (sequence, task_id, source, number, run) AS
SELECT sequence, task_id, source, number, run FROM told
UNION ALL
SELECT sequence, task_id, CAST('message' AS TEXT), seq, run FROM messages WHERE sequence > 0;

CREATE VIEW timeline_end (last) AS
SELECT max(
    coalesce((SELECT max(sequence) FROM told), 0), coalesce((SELECT max(sequence) FROM messages), 0), 0
);

-- The range of numbers that all rows of a run are in; after its end no messages are added.
CREATE VIEW timeline_span (run, first, last) AS
SELECT
    id,
    (SELECT min(sequence) FROM told WHERE run = id),
    CASE WHEN status IN ('completed', 'failed', 'canceled')
    THEN (SELECT max(sequence) FROM told WHERE run = id) ELSE 9223372036854775807 END
FROM tasks;

CREATE TRIGGER timeline_of_events AFTER INSERT ON events
BEGIN
    INSERT INTO told (sequence, task_id, source, number) VALUES (
        1 + (SELECT last FROM timeline_end),
        NEW.task_id,
        CASE WHEN NEW.type LIKE 'UserInteraction%' THEN 'question' ELSE 'status' END,
        NEW.sequence
    );
END;

CREATE TRIGGER timeline_of_calls AFTER INSERT ON audit
BEGIN
    INSERT INTO told (sequence, task_id, source, number)
    VALUES (1 + (SELECT last FROM timeline_end), NEW.task_id, 'call', NEW.sequence);
END;

CREATE TRIGGER timeline_of_tickets AFTER INSERT ON ticket_history
BEGIN
    INSERT INTO told (sequence, task_id, source, number) VALUES (
        1 + (SELECT last FROM timeline_end),
        NEW.session_id || '/' || NEW.ticket_id,
        'ticket',
        NEW.place
    );
END;

-- A turn nearly always has one attempt, which is stored in the row of its step.  Further attempts,
-- those of tickets, and all from before have rows of their own.

ALTER TABLE turns RENAME TO attempts;

ALTER TABLE steps ADD COLUMN member TEXT;  -- NULL: no attempt is in this row
ALTER TABLE steps ADD COLUMN token INTEGER;
ALTER TABLE steps ADD COLUMN opened_at TEXT;
ALTER TABLE steps ADD COLUMN thread TEXT;
ALTER TABLE steps ADD COLUMN machine TEXT;
ALTER TABLE steps ADD COLUMN closed_at TEXT;
ALTER TABLE steps ADD COLUMN outcome TEXT;
ALTER TABLE steps ADD COLUMN detail TEXT;
ALTER TABLE steps ADD COLUMN usage TEXT;

CREATE VIEW turns (
    task_id, step, attempt, member, token, opened_at, thread, machine, closed_at, outcome, detail,
    usage, opened
) AS
SELECT
    task_id, step, attempt, member, token, opened_at, thread, machine, closed_at, outcome, detail,
    usage, opened
FROM attempts
UNION ALL
SELECT
    task_id, name, CAST(1 AS INTEGER), member, token, opened_at, thread, machine, closed_at, outcome, detail,
    usage, opened
FROM steps WHERE member IS NOT NULL;

CREATE TRIGGER timeline_of_failures AFTER UPDATE OF outcome ON attempts
WHEN OLD.outcome IS NULL AND NEW.outcome = 'failed'
BEGIN
    INSERT INTO told (sequence, task_id, source, number)
    VALUES (1 + (SELECT last FROM timeline_end), NEW.task_id, 'failure', NEW.opened);
END;

CREATE TRIGGER timeline_of_failed_steps AFTER UPDATE OF outcome ON steps
WHEN OLD.outcome IS NULL AND NEW.outcome = 'failed'
BEGIN
    INSERT INTO told (sequence, task_id, source, number)
    VALUES (1 + (SELECT last FROM timeline_end), NEW.task_id, 'failure', NEW.opened);
END;
