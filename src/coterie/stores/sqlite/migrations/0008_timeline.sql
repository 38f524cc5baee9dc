-- One order over everything reported about tasks: following a project continues after a number, and
-- a page of a long task is read by numbers too.

CREATE TABLE timeline (
    sequence INTEGER PRIMARY KEY,          -- in the order of commits; nothing is ever taken out
    task_id TEXT NOT NULL,
    source TEXT NOT NULL,                  -- status, question, message, call, failure, ticket
    number INTEGER NOT NULL,               -- which row of that source
    run TEXT NOT NULL AS (                 -- the task, of a ticket its session
        CASE instr(task_id, '/') WHEN 0 THEN task_id
        ELSE substr(task_id, 1, instr(task_id, '/') - 1) END
    )
) STRICT;

CREATE INDEX timeline_of_run ON timeline (run, sequence);

-- To look up what belongs to a row: the failure of a turn, the beginning of a call that ended.
CREATE INDEX turns_failed ON turns (task_id, opened) WHERE outcome = 'failed';
CREATE INDEX calls_of_task ON audit (task_id, tool_call_id);

-- The existing rows in order of time; within an instant: beginnings, what was said and done,
-- questions, ends.
INSERT INTO timeline (task_id, source, number)
SELECT task_id, source, number
FROM (
    SELECT
        at, task_id, sequence AS number,
        CASE WHEN type LIKE 'UserInteraction%' THEN 'question' ELSE 'status' END AS source,
        CASE WHEN type IN ('TaskCreated', 'TaskStarted') THEN 0
        WHEN type LIKE 'UserInteraction%' THEN 2 ELSE 3 END AS place
    FROM events
    UNION ALL
    SELECT at, task_id, seq, 'message', 1 FROM messages WHERE text <> ''
    UNION ALL
    SELECT timestamp, task_id, sequence, 'call', 1 FROM audit
    UNION ALL
    SELECT closed_at, task_id, opened, 'failure', 1 FROM turns WHERE outcome = 'failed'
    UNION ALL
    SELECT at, session_id || '/' || ticket_id, place, 'ticket', 1 FROM ticket_history
)
ORDER BY at, place, number;

CREATE TRIGGER timeline_of_events AFTER INSERT ON events
BEGIN
    INSERT INTO timeline (task_id, source, number) VALUES (
        NEW.task_id,
        CASE WHEN NEW.type LIKE 'UserInteraction%' THEN 'question' ELSE 'status' END,
        NEW.sequence
    );
END;

CREATE TRIGGER timeline_of_messages AFTER INSERT ON messages WHEN NEW.text <> ''
BEGIN
    INSERT INTO timeline (task_id, source, number) VALUES (NEW.task_id, 'message', NEW.seq);
END;

CREATE TRIGGER timeline_of_calls AFTER INSERT ON audit
BEGIN
    INSERT INTO timeline (task_id, source, number) VALUES (NEW.task_id, 'call', NEW.sequence);
END;

CREATE TRIGGER timeline_of_failures AFTER UPDATE OF outcome ON turns
WHEN OLD.outcome IS NULL AND NEW.outcome = 'failed'
BEGIN
    INSERT INTO timeline (task_id, source, number) VALUES (NEW.task_id, 'failure', NEW.opened);
END;

CREATE TRIGGER timeline_of_tickets AFTER INSERT ON ticket_history
BEGIN
    INSERT INTO timeline (task_id, source, number)
    VALUES (NEW.session_id || '/' || NEW.ticket_id, 'ticket', NEW.place);
END;
