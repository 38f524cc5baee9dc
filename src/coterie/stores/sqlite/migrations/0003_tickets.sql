-- Tickets and what was said about them.

CREATE TABLE envelopes (
    session_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,             -- gapless within a session, in commit order
    body TEXT NOT NULL,                    -- the whole envelope as JSON
    PRIMARY KEY (session_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE tickets (
    session_id TEXT NOT NULL,
    id TEXT NOT NULL,
    made INTEGER NOT NULL,                 -- in which order
    state TEXT NOT NULL,
    body TEXT NOT NULL,                    -- all but its history, as JSON
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX tickets_in_order ON tickets (session_id, made);

CREATE TABLE ticket_history (
    session_id TEXT NOT NULL,
    ticket_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    at TEXT NOT NULL,
    event TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session_id, ticket_id, place)
) STRICT, WITHOUT ROWID;
