-- Statements for SQLite only: those of transactions and of writes, and those that read JSON.

-- name: begin
BEGIN IMMEDIATE

-- name: begin_reading
BEGIN

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

-- name: event_hash
SELECT hash FROM events WHERE sequence = ?

-- name: insert_event
INSERT INTO events (sequence, task_id, type, at, data, hash) VALUES (?, ?, ?, ?, ?, ?)

-- tasks

-- name: task_status
SELECT status FROM tasks WHERE id = ?

-- name: insert_task
INSERT INTO tasks ({TaskRow}, created) VALUES ({TaskRow?}, ?)

-- name: update_task
UPDATE tasks SET status = ?, reason = ?, changed_at = ? WHERE id = ?

-- questions

-- name: open_questions
SELECT id FROM questions WHERE task_id = ? AND state = 'open'

-- name: insert_question
INSERT INTO questions (id, task_id, step, state, requested, once) VALUES (?, ?, ?, 'open', ?, ?)
ON CONFLICT DO NOTHING

-- name: respond_question
UPDATE questions SET state = ?, responded = ? WHERE id = ? AND state = 'open'

-- name: close_questions
UPDATE questions SET state = 'closed' WHERE task_id = ? AND state = 'open'

-- audit

-- name: last_audit
SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1

-- name: insert_audit
INSERT INTO audit (sequence, {AuditEntry}, hash) VALUES (?, {AuditEntry?}, ?)

-- timeline

-- name: timeline_head
SELECT last FROM timeline_end

-- name: timeline_statuses
SELECT e.sequence, e.data, t.workflow FROM events AS e JOIN tasks AS t ON t.id = e.task_id
WHERE e.sequence IN (SELECT value FROM json_each(?))

-- name: timeline_questions
SELECT e.sequence, e.data, asked.data FROM events AS e
LEFT JOIN questions AS q ON q.responded = e.sequence
LEFT JOIN events AS asked ON asked.sequence = q.requested
WHERE e.sequence IN (SELECT value FROM json_each(?))

-- name: timeline_messages
SELECT {Message} FROM messages
WHERE (task_id, seq) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
)

-- name: timeline_calls
SELECT sequence, {AuditEntry} FROM audit WHERE sequence IN (SELECT value FROM json_each(?))

-- name: timeline_failures
SELECT {Turn}, opened FROM turns
WHERE outcome = 'failed' AND (task_id, opened) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
)

-- conversation

-- Not INSERT … SELECT … WHERE: a SELECT from the same table goes through a temporary one.  A message
-- that does not follow the last one gets a number that is none, and is refused.

-- name: insert_message
INSERT INTO messages (sequence, {Message}) VALUES (
    iif(
        (SELECT 1 + coalesce(max(seq), 0) FROM messages WHERE task_id = ?) = ?,
        1 + (SELECT last FROM timeline_end),
        'out of order'
    ),
    {Message?}
)

-- name: insert_silent_message
INSERT INTO messages (sequence, {Message}) VALUES (
    iif(
        (SELECT 1 + coalesce(max(seq), 0) FROM messages WHERE task_id = ?) = ?,
        min(0, (SELECT coalesce(min(sequence), 0) FROM messages)) - 1,
        'out of order'
    ),
    {Message?}
)

-- name: insert_thread
INSERT OR IGNORE INTO threads (thread, place, task_id, entry) VALUES (
    :thread,
    iif(
        :place = 1 + coalesce((SELECT max(place) FROM threads WHERE thread = :thread), 0),
        :place,
        NULL
    ),
    :task_id,
    :entry
)

-- journal

-- name: last_opened
SELECT max(
    coalesce((SELECT max(opened) FROM steps WHERE task_id = ?), 0),
    coalesce((SELECT max(opened) FROM attempts WHERE task_id = ?), 0),
    coalesce((SELECT max(opened) FROM attempts WHERE task_id BETWEEN ? || '/' AND ? || '0'), 0)
)

-- name: open_step
INSERT INTO steps ({Step}, opened) VALUES ({Step?}, ?)

-- name: close_step
UPDATE steps SET result = :result
WHERE task_id = :task_id AND name = :name AND result IS NULL

-- name: open_turn
INSERT INTO attempts ({OpenTurn}, opened) SELECT {OpenTurn?}, ?
WHERE NOT EXISTS (
    SELECT 1 FROM steps WHERE task_id = ? AND name = ? AND ? = 1 AND member IS NOT NULL
)

-- name: spend_turn
UPDATE attempts SET usage = :usage
WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL

-- name: close_turn
UPDATE attempts
SET closed_at = :closed_at, outcome = :outcome, detail = :detail, thread = :thread,
    usage = coalesce(:usage, usage)
WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL

-- the first attempt, stored in the row of its step

-- name: open_step_with_turn
INSERT INTO steps ({Step}, member, token, opened_at, thread, machine, opened)
VALUES ({Step?}, ?, ?, ?, ?, ?, ?)

-- name: spend_first_turn
UPDATE steps SET usage = :usage
WHERE task_id = :task_id AND name = :step AND outcome IS NULL AND member IS NOT NULL

-- name: close_first_turn
UPDATE steps
SET closed_at = :closed_at, outcome = :outcome, detail = :detail, thread = :thread,
    usage = coalesce(:usage, usage)
WHERE task_id = :task_id AND name = :step AND outcome IS NULL AND member IS NOT NULL

-- name: close_turn_with_step
UPDATE steps
SET result = ?, closed_at = ?, outcome = ?, detail = ?, thread = ?, usage = coalesce(?, usage)
WHERE task_id = ? AND name = ? AND result IS NULL AND outcome IS NULL AND member IS NOT NULL

-- name: complete_turn_with_step
UPDATE steps
SET result = ?, closed_at = ?, outcome = ?, thread = ?, usage = coalesce(?, usage)
WHERE task_id = ? AND name = ? AND result IS NULL AND outcome IS NULL AND member IS NOT NULL

-- name: used
WITH told AS (
    SELECT t.session_id, sum(json_extract(u.usage, '$.input_tokens')) AS input,
        sum(json_extract(u.usage, '$.output_tokens')) AS output,
        sum(json_extract(u.usage, '$.cost_usd')) AS usd
    FROM turns AS u JOIN tasks AS t ON t.id = u.task_id
    WHERE u.usage IS NOT NULL GROUP BY t.session_id
)
SELECT told.* FROM told JOIN tasks AS t ON t.id = told.session_id
JOIN events AS e ON e.sequence = t.created
WHERE NOT coalesce(json_extract(e.data, '$.rehearsal'), 0)

-- tickets

-- name: insert_envelope
INSERT INTO envelopes (session_id, sequence, body)
SELECT ?, 1 + coalesce((SELECT max(sequence) FROM envelopes WHERE session_id = ?), 0), ?

-- name: insert_ticket
INSERT INTO tickets ({Ticket}, session_id, made)
SELECT ?, ?, ?, ?, 1 + coalesce((SELECT max(made) FROM tickets WHERE session_id = ?), 0)
WHERE true ON CONFLICT DO NOTHING

-- name: update_ticket
UPDATE tickets SET state = ?, body = ? WHERE session_id = ? AND id = ? AND state = ?

-- name: insert_moment
INSERT INTO ticket_history (session_id, ticket_id, place, {Moment})
VALUES (?, ?, ?, {Moment?}) ON CONFLICT DO NOTHING

-- name: last_moment
SELECT coalesce(max(place), 0) FROM ticket_history WHERE session_id = ? AND ticket_id = ?

-- leases

-- name: holds_lease
SELECT 1 FROM leases WHERE task_id = ? AND token = ?

-- name: park_lease
UPDATE leases SET state = 'parked' WHERE task_id = :task_id AND token = :token

-- reservations

-- name: next_reservation
UPDATE counters SET value = value + 1 WHERE name = 'reservation' AND value = ? RETURNING value

-- name: insert_reservation
INSERT OR REPLACE INTO reservations ({Reservation}) VALUES ({Reservation?})

-- name: drop_reservations_of_others
DELETE FROM reservations
WHERE token <> (SELECT token FROM leases WHERE leases.task_id = reservations.run)

-- requests and member states

-- name: delete_request
DELETE FROM requests WHERE id = ?

-- name: supersede_step
UPDATE steps SET name = ? || name WHERE task_id = ? AND name = ?

-- name: supersede_turns
UPDATE attempts SET step = ? || step WHERE task_id = ? AND step = ?

-- name: set_member_state
INSERT INTO member_states ({SetMemberState}) VALUES ({SetMemberState?})
ON CONFLICT DO UPDATE SET state = excluded.state, reason = excluded.reason, since = excluded.since,
    waits_for = excluded.waits_for, until = excluded.until

-- name: drop_member_state
DELETE FROM member_states WHERE task_id = ? AND member = ?
