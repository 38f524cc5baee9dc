-- Rows are kept small and every text is stored once: the bodies of questions are in `events`,
-- what was said is in `messages`, and everything else refers to them.

CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,          -- gapless, so that a lost tail can be seen
    task_id TEXT NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    data TEXT NOT NULL,                    -- the whole event as JSON
    hash BLOB NOT NULL                     -- over the previous row's hash and this row
) STRICT;

CREATE INDEX events_of_task ON events (task_id);

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END;

CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    author_actor_id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    input TEXT,
    output TEXT,
    is_error INTEGER,
    duration_ms INTEGER,
    hash BLOB NOT NULL
) STRICT;

CREATE INDEX audit_of_task ON audit (task_id);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never deleted');
END;

-- Projections: folded from events in the transaction that appends them.

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    created INTEGER NOT NULL,              -- the sequence of its TaskCreated
    session_id TEXT NOT NULL,
    parent_id TEXT,
    workflow TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    step TEXT NOT NULL,
    state TEXT NOT NULL,                   -- open, answered, closed
    requested INTEGER NOT NULL,            -- the sequences of its two events
    responded INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX questions_open ON questions (task_id) WHERE state = 'open';

-- The conversation and the journal.

CREATE TABLE messages (
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    member TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL,
    turn INTEGER NOT NULL,
    next TEXT,
    done INTEGER NOT NULL,
    PRIMARY KEY (task_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    input TEXT NOT NULL,
    result TEXT,
    opened INTEGER NOT NULL,               -- grows within a task, over steps and turns alike
    PRIMARY KEY (task_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    task_id TEXT NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    member TEXT NOT NULL,
    token INTEGER NOT NULL,
    opened_at TEXT NOT NULL,
    thread TEXT,
    closed_at TEXT,
    outcome TEXT,
    detail TEXT,
    opened INTEGER NOT NULL,
    PRIMARY KEY (task_id, step, attempt)
) STRICT, WITHOUT ROWID;

-- Who runs each task, and what other processes request of it.

CREATE TABLE leases (
    task_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL,
    state TEXT NOT NULL                    -- running, reclaiming, parked
) STRICT, WITHOUT ROWID;

CREATE TABLE children (
    mark TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    member TEXT NOT NULL,
    agent TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    host TEXT NOT NULL,
    started_at TEXT NOT NULL,
    pid INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- an id that was acted on must not come again
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE TABLE member_states (
    task_id TEXT NOT NULL,
    member TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (task_id, member)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('question', 0);
