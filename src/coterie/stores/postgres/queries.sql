-- Statements for PostgreSQL only.  A write that cannot follow raises through `must`, as nothing is
-- read before writing; the last value of such a statement is its error message.

-- messages of the writer

-- name: begin_batch
SELECT begin_batch(?, ?, ?)

-- name: hold
SELECT hold(?, ?)

-- name: answer
WITH done (value) AS (:write) SELECT answer((SELECT value FROM done))

-- name: keep_answers
SELECT keep_answers(?)

-- name: illegal_write
SELECT must(false, ?)

-- name: drop_writer
DELETE FROM writers WHERE id = ?

-- events

-- name: append_event
SELECT append_event(?, ?, ?, ?, ?, ?, ?)

-- name: insert_task
INSERT INTO tasks ({TaskRow}, created) VALUES ({TaskRow?}, (SELECT events FROM head))

-- name: insert_question
WITH done AS (
    INSERT INTO questions (id, task_id, step, state, requested, once)
    VALUES (?, ?, ?, 'open', (SELECT events FROM head), ?) ON CONFLICT DO NOTHING RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: respond_question
SELECT respond(?, ?, ?)

-- name: close_questions
UPDATE questions SET state = 'closed' WHERE task_id = ? AND state = 'open'

-- name: lock_head
SELECT FROM head FOR UPDATE

-- name: question_is_open
SELECT must(
    EXISTS (SELECT FROM questions WHERE task_id = ? AND id = ? AND state = 'open'), 'closed', 'CT004'
)

-- name: task_is_new
WITH done AS (
    INSERT INTO leases (task_id, owner, token, state) SELECT ?, ?, 1, 'running'
    WHERE NOT EXISTS (SELECT FROM tasks WHERE id = ?) ON CONFLICT DO NOTHING RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), 'taken', 'CT004')

-- audit

-- name: insert_audit
INSERT INTO audit (sequence, {AuditEntry}, hash)
SELECT place, {AuditEntry?}, own FROM next_audit(?)

-- timeline

-- name: timeline_head
SELECT coalesce(max(sequence), 0) FROM timeline

-- name: timeline_statuses
SELECT e.sequence, e.data, t.workflow FROM events AS e JOIN tasks AS t ON t.id = e.task_id
WHERE e.sequence IN (SELECT value::BIGINT FROM json_array_elements_text(?))

-- name: timeline_questions
SELECT e.sequence, e.data, asked.data FROM events AS e
LEFT JOIN questions AS q ON q.responded = e.sequence
LEFT JOIN events AS asked ON asked.sequence = q.requested
WHERE e.sequence IN (SELECT value::BIGINT FROM json_array_elements_text(?))

-- name: timeline_messages
SELECT {Message} FROM messages
WHERE (task_id, seq) IN (
    SELECT value ->> 0, (value ->> 1)::BIGINT FROM json_array_elements(?)
)

-- name: timeline_calls
SELECT sequence, {AuditEntry} FROM audit
WHERE sequence IN (SELECT value::BIGINT FROM json_array_elements_text(?))

-- name: timeline_failures
SELECT {Turn}, opened FROM turns
WHERE outcome = 'failed' AND (task_id, opened) IN (
    SELECT value ->> 0, (value ->> 1)::BIGINT FROM json_array_elements(?)
)

-- conversation

-- name: insert_message
WITH done AS (
    INSERT INTO messages ({Message}) SELECT {Message?}
    WHERE ? = 1 + (SELECT coalesce(max(seq), 0) FROM messages WHERE task_id = ?) RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: insert_thread
WITH done AS (
    INSERT INTO threads (thread, place, task_id, entry)
    SELECT :thread, :place, :task_id, :entry
    WHERE :place = 1 + coalesce((SELECT max(place) FROM threads WHERE thread = :thread), 0)
    RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- journal

-- name: open_step
WITH done AS (
    INSERT INTO steps ({Step}, opened) VALUES ({Step?}, nextval('opened'))
    ON CONFLICT DO NOTHING RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: close_step
WITH done AS (
    UPDATE steps SET result = :result
    WHERE task_id = :task_id AND name = :name AND result IS NULL RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: open_turn
WITH done AS (
    INSERT INTO turns ({OpenTurn}, opened) VALUES ({OpenTurn?}, nextval('opened'))
    ON CONFLICT DO NOTHING RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: spend_turn
WITH done AS (
    UPDATE turns SET usage = :usage
    WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: close_turn
WITH done AS (
    UPDATE turns
    SET closed_at = :closed_at, outcome = :outcome, detail = :detail, thread = :thread,
        usage = coalesce(:usage, usage)
    WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: supersede_step
UPDATE steps SET name = ? || name WHERE task_id = ? AND name = ?

-- name: supersede_turns
UPDATE turns SET step = ? || step WHERE task_id = ? AND step = ?

-- name: used
WITH told AS (
    SELECT t.session_id, sum((u.usage::JSON ->> 'input_tokens')::BIGINT)::BIGINT AS input,
        sum((u.usage::JSON ->> 'output_tokens')::BIGINT)::BIGINT AS output,
        sum((u.usage::JSON ->> 'cost_usd')::DOUBLE PRECISION) AS usd
    FROM turns AS u JOIN tasks AS t ON t.id = u.task_id
    WHERE u.usage IS NOT NULL GROUP BY t.session_id
)
SELECT told.* FROM told JOIN tasks AS t ON t.id = told.session_id
JOIN events AS e ON e.sequence = t.created
WHERE e.data NOT LIKE '%"rehearsal":true%'

-- tickets

-- name: insert_envelope
INSERT INTO envelopes (session_id, sequence, body)
SELECT ?, 1 + coalesce((SELECT max(sequence) FROM envelopes WHERE session_id = ?), 0), ?

-- name: insert_ticket
WITH done AS (
    INSERT INTO tickets ({Ticket}, session_id, made)
    SELECT ?, ?, ?, ?, 1 + coalesce((SELECT max(made) FROM tickets WHERE session_id = ?), 0)
    ON CONFLICT DO NOTHING RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: update_ticket
WITH done AS (
    UPDATE tickets SET state = ?, body = ? WHERE session_id = ? AND id = ? AND state = ? RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- name: insert_moment
INSERT INTO ticket_history (session_id, ticket_id, place, {Moment})
VALUES (?, ?, ?, {Moment?}) ON CONFLICT DO NOTHING

-- leases

-- name: park_lease
WITH done AS (
    UPDATE leases SET state = 'parked' WHERE task_id = :task_id AND token = :token RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), ?)

-- reservations

-- name: next_reservation
WITH done AS (
    UPDATE counters SET value = value + 1 WHERE name = 'reservation' AND value = ? RETURNING 1
) SELECT must(EXISTS (SELECT FROM done), 'another reserved', 'CT004')

-- name: insert_reservation
INSERT INTO reservations ({Reservation}) VALUES ({Reservation?})
ON CONFLICT (task_id, step) DO UPDATE
SET member = excluded.member, at = excluded.at, run = excluded.run, token = excluded.token

-- name: drop_reservations_of_others
DELETE FROM reservations
WHERE token <> (SELECT token FROM leases WHERE leases.task_id = reservations.run)

-- requests and member states

-- name: delete_request
DELETE FROM requests WHERE id = ?

-- name: set_member_state
INSERT INTO member_states ({SetMemberState}) VALUES ({SetMemberState?})
ON CONFLICT (task_id, member) DO UPDATE
SET state = excluded.state, reason = excluded.reason, since = excluded.since,
    waits_for = excluded.waits_for, until = excluded.until

-- name: drop_member_state
DELETE FROM member_states WHERE task_id = ? AND member = ?
