-- How much of the budgets running turns may still use, and questions asked once for all tasks.

CREATE TABLE reservations (
    task_id TEXT NOT NULL,
    step TEXT NOT NULL,
    member TEXT NOT NULL,
    at TEXT NOT NULL,
    run TEXT NOT NULL,                     -- it holds while the lease of this task has the token
    token INTEGER NOT NULL,
    PRIMARY KEY (task_id, step)
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('reservation', 0);

ALTER TABLE questions ADD COLUMN once TEXT;

CREATE UNIQUE INDEX questions_once ON questions (once) WHERE state = 'open' AND once IS NOT NULL;
