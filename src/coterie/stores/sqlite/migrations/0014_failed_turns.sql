-- An update that a trigger may act on is done in two passes.  Most turns succeed, so the trigger for
-- failures depends on a column that only the other outcomes set.

DROP TRIGGER timeline_of_failed_steps;
CREATE TRIGGER timeline_of_failed_steps AFTER UPDATE OF detail ON steps
WHEN OLD.outcome IS NULL AND NEW.outcome = 'failed'
BEGIN
    INSERT INTO told (sequence, task_id, source, number)
    VALUES (1 + (SELECT last FROM timeline_end), NEW.task_id, 'failure', NEW.opened);
END;
