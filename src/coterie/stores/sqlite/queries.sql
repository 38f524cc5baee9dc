-- Every statement of the store, by name.  `codec.py` reads this file once, and puts the columns
-- of a type in the place of its name: {Message}, and as many values in that of {Message?}.

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

-- name: last_event
SELECT sequence, hash FROM events ORDER BY sequence DESC LIMIT 1

-- name: event_hash
SELECT hash FROM events WHERE sequence = ?

-- name: insert_event
INSERT INTO events (sequence, task_id, type, at, data, hash) VALUES (?, ?, ?, ?, ?, ?)

-- name: events_of_task
SELECT data FROM events WHERE task_id = ? ORDER BY sequence LIMIT -1 OFFSET ?

-- name: all_events
SELECT sequence, task_id, type, at, data, hash FROM events ORDER BY sequence

-- tasks

-- name: task_status
SELECT status FROM tasks WHERE id = ?

-- name: insert_task
INSERT INTO tasks ({TaskRow}, created) VALUES ({TaskRow?}, ?)

-- name: update_task
UPDATE tasks SET status = ?, reason = ?, changed_at = ? WHERE id = ?

-- name: tasks
SELECT {TaskRow} FROM tasks ORDER BY created

-- name: tickets_below
SELECT id, status FROM tasks WHERE parent_id = ? AND workflow = 'ticket' ORDER BY created

-- questions

-- name: next_question
UPDATE counters SET value = value + 1 WHERE name = 'question' RETURNING value

-- name: open_questions
SELECT id FROM questions WHERE task_id = ? AND state = 'open'

-- name: insert_question
INSERT INTO questions (id, task_id, step, state, requested, once) VALUES (?, ?, ?, 'open', ?, ?)
ON CONFLICT DO NOTHING

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
INSERT INTO audit (sequence, {AuditEntry}, hash) VALUES (?, {AuditEntry?}, ?)

-- name: audit_of_task
SELECT {AuditEntry} FROM audit WHERE task_id = ? ORDER BY sequence LIMIT -1 OFFSET ?

-- name: audit_with_tickets
SELECT {AuditEntry} FROM audit WHERE task_id IN (SELECT id FROM with_tickets WHERE task_id = ?)
ORDER BY sequence LIMIT -1 OFFSET ?

-- name: audit_chain
SELECT sequence, {AuditEntry}, hash, lag(hash, 1, x'') OVER (ORDER BY sequence) FROM audit

-- name: audit_of_call
SELECT sequence, {AuditEntry}, hash,
    coalesce((SELECT last.hash FROM audit AS last WHERE last.sequence = audit.sequence - 1), x'')
FROM audit WHERE task_id = ? AND tool_call_id = ? ORDER BY sequence

-- name: audit_entries
SELECT {AuditEntry} FROM audit ORDER BY sequence

-- name: all_audit
SELECT sequence, {AuditEntry}, hash FROM audit ORDER BY sequence

-- timeline

-- name: timeline_head
SELECT coalesce(max(sequence), 0) FROM timeline

-- name: timeline_after
SELECT sequence, task_id, source, number FROM timeline
WHERE sequence > ? AND (source <> 'status' OR task_id = run) ORDER BY sequence LIMIT ?

-- name: timeline_of_run_after
SELECT sequence, task_id, source, number FROM timeline
WHERE run = ? AND task_id = coalesce(?, task_id)
    AND (source <> 'status' OR task_id = coalesce(?, run))
    AND sequence > ? ORDER BY sequence LIMIT ?

-- name: timeline_before
SELECT sequence, task_id, source, number FROM timeline
WHERE run = ? AND task_id = coalesce(?, task_id)
    AND (source <> 'status' OR task_id = coalesce(?, run)) AND source = coalesce(?, source)
    AND sequence < ? ORDER BY sequence DESC LIMIT ?

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

-- name: turn_ended
SELECT {Turn} FROM turns INDEXED BY turns_by_day
WHERE opened_at <= ? AND task_id = ? AND member = ? AND outcome IN ('completed', 'interrupted')
ORDER BY opened_at DESC LIMIT 1

-- name: timeline_calls
SELECT sequence, {AuditEntry} FROM audit WHERE sequence IN (SELECT value FROM json_each(?))

-- name: call_begun
SELECT {AuditEntry} FROM audit
WHERE task_id = ? AND tool_call_id = ? AND author_actor_id = ? AND sequence < ?
    AND kind = 'ToolCallRequested'
ORDER BY sequence DESC LIMIT 1

-- name: timeline_failures
SELECT opened, {Turn} FROM turns
WHERE outcome = 'failed' AND (task_id, opened) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
)

-- conversation

-- name: insert_message
INSERT INTO messages ({Message}) SELECT {Message?}
WHERE ? = 1 + (SELECT coalesce(max(seq), 0) FROM messages WHERE task_id = ?)

-- name: messages
SELECT {Message} FROM messages WHERE task_id = ? AND seq > ? ORDER BY seq

-- name: messages_of_tickets
SELECT {Message} FROM messages
WHERE task_id IN (SELECT id FROM tasks WHERE parent_id = ? AND workflow = 'ticket')
ORDER BY task_id, seq

-- name: insert_thread
INSERT INTO threads (thread, place, task_id, entry)
SELECT :thread, :place, :task_id, :entry
WHERE :place = 1 + coalesce((SELECT max(place) FROM threads WHERE thread = :thread), 0)

-- name: thread
SELECT entry FROM threads WHERE thread = ? ORDER BY place

-- journal

-- name: last_opened
SELECT max(
    coalesce((SELECT max(opened) FROM steps WHERE task_id = ?), 0),
    coalesce((SELECT max(opened) FROM turns
              WHERE task_id IN (SELECT id FROM with_tickets WHERE task_id = ?)), 0)
)

-- name: open_step
INSERT INTO steps ({Step}, opened) VALUES ({Step?}, ?)

-- name: close_step
UPDATE steps SET result = :result
WHERE task_id = :task_id AND name = :name AND result IS NULL

-- name: open_turn
INSERT INTO turns ({OpenTurn}, opened) VALUES ({OpenTurn?}, ?)

-- name: spend_turn
UPDATE turns SET usage = :usage
WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL

-- name: close_turn
UPDATE turns
SET closed_at = :closed_at, outcome = :outcome, detail = :detail, thread = :thread,
    usage = coalesce(:usage, usage)
WHERE task_id = :task_id AND step = :step AND attempt = :attempt AND outcome IS NULL

-- name: steps
SELECT {Step} FROM steps WHERE task_id = ? ORDER BY opened

-- name: turns_of_task
SELECT {Turn} FROM turns WHERE task_id = ? ORDER BY opened

-- name: turns
SELECT {Turn} FROM turns WHERE task_id IN (SELECT id FROM with_tickets WHERE task_id = ?)
ORDER BY opened LIMIT -1 OFFSET ?

-- name: spending
SELECT {Turn} FROM turns WHERE opened_at >= ? ORDER BY opened_at, task_id, opened

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

-- name: spending_of_task
SELECT {Turn} FROM turns
WHERE task_id IN (
    WITH RECURSIVE below (id) AS (
        SELECT ? UNION SELECT t.id FROM tasks AS t JOIN below AS b ON t.parent_id = b.id
    ) SELECT id FROM below
) AND opened_at >= ? ORDER BY opened_at, opened

-- tickets

-- name: insert_envelope
INSERT INTO envelopes (session_id, sequence, body)
SELECT ?, 1 + coalesce((SELECT max(sequence) FROM envelopes WHERE session_id = ?), 0), ?

-- name: envelopes
SELECT sequence, body FROM envelopes WHERE session_id = ? AND sequence > ? ORDER BY sequence

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

-- name: tickets
SELECT {Ticket} FROM tickets WHERE session_id = ? ORDER BY made

-- name: ticket_history
SELECT ticket_id, {Moment} FROM ticket_history WHERE session_id = ? ORDER BY ticket_id, place

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
UPDATE leases SET state = 'parked' WHERE task_id = :task_id AND token = :token

-- name: lease
SELECT {Lease} FROM leases WHERE task_id = ?

-- name: leases
SELECT {Lease} FROM leases ORDER BY task_id

-- name: insert_child
INSERT INTO children ({ChildLease}) VALUES ({ChildLease?})

-- name: set_child_pid
UPDATE children SET pid = ? WHERE mark = ?

-- name: drop_child
DELETE FROM children WHERE mark = ?

-- name: children
SELECT {ChildLease} FROM children ORDER BY started_at, mark

-- name: children_of_task
SELECT {ChildLease} FROM children WHERE task_id = ? ORDER BY started_at, mark

-- reservations

-- name: reservations
SELECT {Reservation} FROM reservations ORDER BY at, task_id, step

-- name: reservations_made
SELECT value FROM counters WHERE name = 'reservation'

-- name: next_reservation
UPDATE counters SET value = value + 1 WHERE name = 'reservation' AND value = ? RETURNING value

-- name: insert_reservation
INSERT OR REPLACE INTO reservations ({Reservation}) VALUES ({Reservation?})

-- name: drop_reservation
DELETE FROM reservations WHERE task_id = ? AND step = ?

-- name: drop_reservations_of_others
DELETE FROM reservations
WHERE token <> (SELECT token FROM leases WHERE leases.task_id = reservations.run)

-- notifications

-- name: queue_notification
INSERT INTO notifications (incident, task_id, at, state, problem) VALUES (?, ?, ?, 'due', '')
ON CONFLICT DO NOTHING

-- name: notifications_due
SELECT {PendingNotification} FROM notifications WHERE state = 'due' ORDER BY at, incident

-- name: claim_notification
UPDATE notifications SET state = 'sending' WHERE incident = ? AND state = 'due' RETURNING incident

-- name: settle_notification
UPDATE notifications SET state = ?, problem = ? WHERE incident = ? AND state IN ('due', 'sending')

-- name: notifications_failed
SELECT {PendingNotification} FROM notifications AS failed WHERE state = 'failed'
AND NOT EXISTS (SELECT 1 FROM notifications WHERE state = 'sent' AND at > failed.at)
ORDER BY at, incident

-- requests and member states

-- name: insert_request
INSERT INTO requests (task_id, kind, author, text, at) VALUES (?, ?, ?, ?, ?) RETURNING id

-- name: requests
SELECT {Request} FROM requests WHERE task_id = ? ORDER BY id

-- name: delete_request
DELETE FROM requests WHERE id = ?

-- name: delete_requests_of_kind
DELETE FROM requests WHERE task_id = ? AND kind = ?

-- name: supersede_step
UPDATE steps SET name = ? || name WHERE task_id = ? AND name = ?

-- name: supersede_turns
UPDATE turns SET step = ? || step WHERE task_id = ? AND step = ?

-- name: set_member_state
INSERT INTO member_states ({SetMemberState}) VALUES ({SetMemberState?})
ON CONFLICT DO UPDATE SET state = excluded.state, reason = excluded.reason, since = excluded.since,
    waits_for = excluded.waits_for, until = excluded.until

-- name: drop_member_state
DELETE FROM member_states WHERE task_id = ? AND member = ?

-- name: member_states
SELECT {SetMemberState} FROM member_states
WHERE task_id = coalesce(?, task_id) ORDER BY task_id, member
