-- Every index that a message or a turn adds to is one more page in the commit of each turn.  The
-- messages of a run lie between its first row and its last, and turns are found by their tasks.

DROP INDEX timeline_of_run;
CREATE INDEX timeline_of_run ON timeline (run, sequence) WHERE source <> 'message';

-- The range of numbers that all rows of a run are in; after its end no messages are added.
CREATE VIEW timeline_span (run, first, last) AS
SELECT
    id,
    (SELECT min(sequence) FROM timeline WHERE run = id AND source <> 'message'),
    CASE WHEN status IN ('completed', 'failed', 'canceled')
    THEN (SELECT max(sequence) FROM timeline WHERE run = id AND source <> 'message')
    ELSE 9223372036854775807 END
FROM tasks;

DROP INDEX turns_by_day;
