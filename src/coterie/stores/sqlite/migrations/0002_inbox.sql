-- What turns cost, and the threads of agents of our own.

ALTER TABLE turns ADD COLUMN usage TEXT;

-- A turn that was completed used to keep what it cost in `detail`.
UPDATE turns SET usage = detail, detail = NULL WHERE outcome = 'completed' AND detail IS NOT NULL;

CREATE TABLE threads (
    thread TEXT NOT NULL,
    place INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    entry TEXT NOT NULL,                   -- JSON, as its agent wrote it
    PRIMARY KEY (thread, place)
) STRICT, WITHOUT ROWID;
