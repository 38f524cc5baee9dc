-- What the user's own `notify` setting reports elsewhere, each incident once.

CREATE TABLE notifications (
    incident TEXT PRIMARY KEY,             -- the question, or the task that ended
    task_id TEXT NOT NULL,
    at TEXT NOT NULL,
    state TEXT NOT NULL,                   -- due, sending, sent, failed, seen
    problem TEXT NOT NULL                  -- why it failed
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_due ON notifications (at) WHERE state = 'due';
