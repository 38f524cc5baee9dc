-- A tool call should write pages of few tables and indexes, as in 0012.

-- An entry of a thread is often longer than what a table without row ids stores inline, and each
-- such row took a page of its own.
CREATE TABLE new_threads (
    thread TEXT NOT NULL,
    place INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    entry TEXT NOT NULL                    -- JSON, as its agent wrote it
) STRICT;
INSERT INTO new_threads (thread, place, task_id, entry)
SELECT thread, place, task_id, entry FROM threads ORDER BY thread, place;
DROP TABLE threads;
ALTER TABLE new_threads RENAME TO threads;
CREATE UNIQUE INDEX threads_in_order ON threads (thread, place);

-- A call's other row is close to it among those of its task.
DROP INDEX calls_of_task;
