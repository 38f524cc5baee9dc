-- The cost of turns, and the threads of our own agents.

ALTER TABLE turns ADD COLUMN usage TEXT;

-- Completed turns used to store their cost in `detail`.
UPDATE turns SET usage = detail, detail = NULL WHERE outcome = 'completed' AND detail IS NOT NULL;

CREATE TABLE threads (
    thread TEXT NOT NULL,
    place INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    entry TEXT NOT NULL,                   -- JSON, as its agent wrote it
    PRIMARY KEY (thread, place)
) STRICT, WITHOUT ROWID;
