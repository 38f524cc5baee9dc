-- A ticket is a task below its session, carried out as part of it.

CREATE INDEX tasks_below ON tasks (parent_id) WHERE parent_id IS NOT NULL;

-- By task: itself and its tickets, whose turns and messages are reported with its own.
CREATE VIEW with_tickets (task_id, id) AS
SELECT id, id FROM tasks
UNION ALL
SELECT parent_id, id FROM tasks WHERE parent_id IS NOT NULL AND workflow = 'ticket';

-- Today's usage is queried before every turn that a daily budget limits.
CREATE INDEX turns_by_day ON turns (opened_at);
