-- Every statement of the store, by name.  `queries.py` reads this file once.

-- name: begin
BEGIN IMMEDIATE

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: savepoint
SAVEPOINT submission

-- name: release
RELEASE submission

-- name: rollback_to
ROLLBACK TO submission

-- name: data_version
PRAGMA data_version

-- name: checkpoint
PRAGMA wal_checkpoint(TRUNCATE)

-- events

-- name: last_event
SELECT sequence, hash FROM events ORDER BY sequence DESC LIMIT 1

-- name: event_hash
SELECT hash FROM events WHERE sequence = ?

-- name: insert_event
INSERT INTO events (sequence, task_id, type, at, data, hash) VALUES (?, ?, ?, ?, ?, ?)

-- name: events_of_task
SELECT data FROM events WHERE task_id = ? ORDER BY sequence

-- name: all_events
SELECT sequence, task_id, type, at, data, hash FROM events ORDER BY sequence

-- tasks

-- name: task_status
SELECT status FROM tasks WHERE id = ?

-- name: insert_task
INSERT INTO tasks
    (id, created, session_id, parent_id, workflow, title, status, reason, created_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_task
UPDATE tasks SET status = ?, reason = ?, changed_at = ? WHERE id = ?

-- name: tasks
SELECT id, session_id, parent_id, workflow, title, status, reason, created_at, changed_at
FROM tasks ORDER BY created

-- questions

-- name: next_question
UPDATE counters SET value = value + 1 WHERE name = 'question' RETURNING value

-- name: open_questions
SELECT id FROM questions WHERE task_id = ? AND state = 'open'

-- name: insert_question
INSERT INTO questions (id, task_id, step, state, requested) VALUES (?, ?, ?, 'open', ?)

-- name: respond_question
UPDATE questions SET state = ?, responded = ? WHERE id = ? AND state = 'open'

-- name: close_questions
UPDATE questions SET state = 'closed' WHERE task_id = ? AND state = 'open'

-- name: question
SELECT q.step, q.state, asked.data, answered.data
FROM questions AS q
JOIN events AS asked ON asked.sequence = q.requested
LEFT JOIN events AS answered ON answered.sequence = q.responded
WHERE q.id = ?

-- name: questions
SELECT q.step, q.state, asked.data, answered.data
FROM questions AS q
JOIN events AS asked ON asked.sequence = q.requested
LEFT JOIN events AS answered ON answered.sequence = q.responded
ORDER BY q.requested

-- name: questions_open
SELECT q.step, q.state, asked.data, NULL
FROM questions AS q
JOIN events AS asked ON asked.sequence = q.requested
WHERE q.state = 'open'
ORDER BY q.requested

-- audit

-- name: last_audit
SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1

-- name: insert_audit
INSERT INTO audit
    (sequence, task_id, kind, tool_call_id, tool_name, author_actor_id, timestamp,
     input, output, is_error, duration_ms, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: audit_of_task
SELECT kind, tool_call_id, tool_name, author_actor_id, task_id, timestamp,
       input, output, is_error, duration_ms
FROM audit WHERE task_id = ? ORDER BY sequence

-- name: audit_entries
SELECT kind, tool_call_id, tool_name, author_actor_id, task_id, timestamp,
       input, output, is_error, duration_ms
FROM audit ORDER BY sequence

-- name: audit_chain
SELECT sequence, hash, kind, tool_call_id, tool_name, author_actor_id, task_id, timestamp,
       input, output, is_error, duration_ms
FROM audit ORDER BY sequence

-- name: all_audit
SELECT sequence, task_id, kind, tool_call_id, tool_name, author_actor_id, timestamp,
       input, output, is_error, duration_ms, hash
FROM audit ORDER BY sequence

-- conversation

-- name: insert_message
INSERT INTO messages (task_id, seq, member, text, at, turn, next, done, cut)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: last_message
SELECT coalesce(max(seq), 0) FROM messages WHERE task_id = ?

-- name: messages
SELECT task_id, seq, member, text, at, turn, next, done, cut
FROM messages WHERE task_id = ? AND seq > ? ORDER BY seq

-- name: insert_thread
INSERT INTO threads (thread, place, task_id, entry)
SELECT ?1, ?2, ?3, ?4
WHERE ?2 = 1 + coalesce((SELECT max(place) FROM threads WHERE thread = ?1), 0)

-- name: thread
SELECT entry FROM threads WHERE thread = ? ORDER BY place

-- journal

-- name: last_opened
SELECT max(
    coalesce((SELECT max(opened) FROM steps WHERE task_id = ?), 0),
    coalesce((SELECT max(opened) FROM turns WHERE task_id = ?), 0)
)

-- name: open_step
INSERT INTO steps (task_id, name, kind, digest, input, result, opened)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: close_step
UPDATE steps SET result = ? WHERE task_id = ? AND name = ? AND result IS NULL

-- name: open_turn
INSERT INTO turns
    (task_id, step, attempt, member, token, opened_at, thread, closed_at, outcome, detail, opened)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: spend_turn
UPDATE turns SET usage = ? WHERE task_id = ? AND step = ? AND attempt = ? AND outcome IS NULL

-- name: close_turn
UPDATE turns
SET closed_at = ?, outcome = ?, detail = ?, thread = ?, usage = coalesce(?, usage)
WHERE task_id = ? AND step = ? AND attempt = ? AND outcome IS NULL

-- name: steps
SELECT task_id, name, kind, digest, input, result
FROM steps WHERE task_id = ? ORDER BY opened

-- name: turns
SELECT task_id, step, attempt, member, token, opened_at, thread, closed_at, outcome, detail,
       usage
FROM turns WHERE task_id = ? ORDER BY opened

-- name: spending
SELECT task_id, step, attempt, member, token, opened_at, thread, closed_at, outcome, detail,
       usage
FROM turns WHERE usage IS NOT NULL AND opened_at >= ? ORDER BY opened_at, task_id, opened

-- tickets

-- name: insert_envelope
INSERT INTO envelopes (session_id, sequence, body)
SELECT ?1, 1 + coalesce((SELECT max(sequence) FROM envelopes WHERE session_id = ?1), 0), ?2

-- name: envelopes
SELECT sequence, body FROM envelopes WHERE session_id = ? AND sequence > ? ORDER BY sequence

-- name: insert_ticket
INSERT INTO tickets (session_id, id, made, state, body)
SELECT ?1, ?2, 1 + coalesce((SELECT max(made) FROM tickets WHERE session_id = ?1), 0), ?3, ?4
WHERE true ON CONFLICT DO NOTHING

-- name: update_ticket
UPDATE tickets SET state = ?, body = ? WHERE session_id = ? AND id = ? AND state = ?

-- name: insert_moment
INSERT INTO ticket_history (session_id, ticket_id, place, at, event, message)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: last_moment
SELECT coalesce(max(place), 0) FROM ticket_history WHERE session_id = ? AND ticket_id = ?

-- name: tickets
SELECT id, state, body FROM tickets WHERE session_id = ? ORDER BY made

-- name: ticket_history
SELECT ticket_id, at, event, message FROM ticket_history
WHERE session_id = ? ORDER BY ticket_id, place

-- leases

-- name: holds_lease
SELECT 1 FROM leases WHERE task_id = ? AND token = ?

-- name: insert_lease
INSERT INTO leases (task_id, owner, token, state) VALUES (?, ?, 1, ?)
ON CONFLICT DO NOTHING RETURNING token

-- name: claim_lease
UPDATE leases SET owner = ?, token = token + 1, state = 'reclaiming'
WHERE task_id = ? AND token = ? RETURNING token

-- name: confirm_lease
UPDATE leases SET state = 'running'
WHERE task_id = ? AND token = ? AND state = 'reclaiming' RETURNING token

-- name: park_lease
UPDATE leases SET state = 'parked' WHERE task_id = ? AND token = ?

-- name: lease
SELECT task_id, owner, token, state FROM leases WHERE task_id = ?

-- name: leases
SELECT task_id, owner, token, state FROM leases ORDER BY task_id

-- name: insert_child
INSERT INTO children
    (task_id, member, agent, mark, boot_id, pid_namespace, host, started_at, pid)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_child_pid
UPDATE children SET pid = ? WHERE mark = ?

-- name: drop_child
DELETE FROM children WHERE mark = ?

-- name: children
SELECT task_id, member, agent, mark, boot_id, pid_namespace, host, started_at, pid
FROM children ORDER BY started_at, mark

-- name: children_of_task
SELECT task_id, member, agent, mark, boot_id, pid_namespace, host, started_at, pid
FROM children WHERE task_id = ? ORDER BY started_at, mark

-- requests and member states

-- name: insert_request
INSERT INTO requests (task_id, kind, author, text, at) VALUES (?, ?, ?, ?, ?) RETURNING id

-- name: requests
SELECT id, task_id, kind, author, text, at FROM requests WHERE task_id = ? ORDER BY id

-- name: delete_request
DELETE FROM requests WHERE id = ?

-- name: delete_requests_of_kind
DELETE FROM requests WHERE task_id = ? AND kind = ?

-- name: set_step_aside
UPDATE steps SET name = ? || name WHERE task_id = ? AND name = ?

-- name: set_turns_aside
UPDATE turns SET step = ? || step WHERE task_id = ? AND step = ?

-- name: set_member_state
INSERT INTO member_states (task_id, member, state, reason, since) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, reason = excluded.reason, since = excluded.since

-- name: drop_member_state
DELETE FROM member_states WHERE task_id = ? AND member = ?

-- name: member_states
SELECT member, state, reason, since FROM member_states WHERE task_id = ? ORDER BY member
