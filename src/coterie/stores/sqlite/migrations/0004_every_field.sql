-- Fields of the stored types that the tables could not hold.

-- Whether a message was interrupted before its end.

ALTER TABLE messages ADD COLUMN cut INTEGER NOT NULL DEFAULT 0;

-- So far only the turn showed this.  If a chat was resumed without it, and another agent took the
-- floor that was the person's, that is what happened: such a history stays as it is.
UPDATE messages SET cut = 1
WHERE EXISTS (
    SELECT 1 FROM turns JOIN steps ON steps.task_id = turns.task_id AND steps.name = turns.step
    WHERE turns.task_id = messages.task_id AND turns.outcome = 'interrupted'
    AND steps.result = '{"message":' || messages.seq || '}'
) AND NOT EXISTS (
    SELECT 1 FROM turns AS later JOIN events ON events.task_id = later.task_id
    WHERE later.task_id = messages.task_id AND later.step = 'turn/' || (messages.turn + 1)
    AND later.outcome = 'completed' AND events.type = 'TaskCreated'
    AND events.data NOT LIKE '%"author":"' || later.member || '"%'
);

-- A machine may have no boot id and no process namespaces.
CREATE TABLE new_children (
    mark TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    member TEXT NOT NULL,
    agent TEXT NOT NULL,
    boot_id TEXT,
    pid_namespace TEXT,
    host TEXT NOT NULL,
    started_at TEXT NOT NULL,
    pid INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO new_children
SELECT mark, task_id, member, agent, boot_id, pid_namespace, host, started_at, pid FROM children;

DROP TABLE children;

ALTER TABLE new_children RENAME TO children;
