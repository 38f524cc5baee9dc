-- Named statements that every database runs unchanged; `statements.py` loads them together with
-- those of the back end.  Each `?` is one value.

-- events

-- name: last_event
SELECT sequence, hash FROM events ORDER BY sequence DESC LIMIT 1

-- name: events_of_task
SELECT data FROM events WHERE task_id = ? ORDER BY sequence LIMIT 9223372036854775807 OFFSET ?

-- name: all_events
SELECT sequence, task_id, type, at, data, hash FROM events ORDER BY sequence

-- tasks

-- name: tasks
SELECT {TaskRow} FROM tasks ORDER BY created

-- name: tasks_below
WITH RECURSIVE below (id) AS (
    SELECT id FROM tasks WHERE parent_id = ?
    UNION SELECT t.id FROM tasks AS t JOIN below AS b ON t.parent_id = b.id
) SELECT {TaskRow} FROM tasks WHERE id IN (SELECT id FROM below) ORDER BY created

-- name: tickets_below
SELECT id, status FROM tasks WHERE parent_id = ? AND workflow = 'ticket' ORDER BY created

-- questions

-- name: next_question
UPDATE counters SET value = value + 1 WHERE name = 'question' RETURNING value

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

-- name: budget_answers
SELECT q.step, q.state, asked.data, answered.data
FROM questions AS q
JOIN events AS asked ON asked.sequence = q.requested
JOIN events AS answered ON answered.sequence = q.responded
WHERE q.step LIKE ? AND answered.at >= ?
AND (? IS NULL OR q.task_id IN (SELECT id FROM tasks WHERE session_id = ?))
ORDER BY q.requested

-- audit

-- name: audit_of_task
SELECT {AuditEntry} FROM audit WHERE task_id = ? ORDER BY sequence LIMIT 9223372036854775807 OFFSET ?

-- name: audit_with_tickets
SELECT {AuditEntry} FROM audit WHERE task_id IN (SELECT id FROM with_tickets WHERE task_id = ?)
ORDER BY sequence LIMIT 9223372036854775807 OFFSET ?

-- name: audit_chain
SELECT sequence, {AuditEntry}, hash, lag(hash) OVER (ORDER BY sequence) FROM audit

-- name: audit_of_call
SELECT sequence, {AuditEntry}, hash,
    (SELECT last.hash FROM audit AS last WHERE last.sequence = audit.sequence - 1)
FROM audit WHERE task_id = ? AND tool_call_id = ? ORDER BY sequence

-- name: audit_entries
SELECT {AuditEntry} FROM audit ORDER BY sequence

-- name: all_audit
SELECT sequence, {AuditEntry}, hash FROM audit ORDER BY sequence

-- timeline

-- name: timeline_after
SELECT sequence, task_id, source, number FROM timeline
WHERE sequence > ? AND (source <> 'status' OR task_id = run) ORDER BY sequence LIMIT ?

-- name: timeline_of_run_after
SELECT sequence, task_id, source, number FROM timeline
WHERE sequence BETWEEN (SELECT first FROM timeline_span WHERE run = ?)
    AND (SELECT last FROM timeline_span WHERE run = ?)
    AND run = ? AND (task_id = coalesce(?, task_id) OR task_id LIKE ?)
    AND (source <> 'status' OR task_id = coalesce(?, run))
    AND sequence > ? ORDER BY sequence LIMIT ?

-- name: timeline_before
SELECT sequence, task_id, source, number FROM timeline
WHERE sequence BETWEEN (SELECT first FROM timeline_span WHERE run = ?)
    AND (SELECT last FROM timeline_span WHERE run = ?)
    AND run = ? AND (task_id = coalesce(?, task_id) OR task_id LIKE ?)
    AND (source <> 'status' OR task_id = coalesce(?, run)) AND source = coalesce(?, source)
    AND sequence < ? ORDER BY sequence DESC LIMIT ?

-- name: turns_ended
SELECT {Turn}, opened FROM turns
WHERE task_id = ? AND closed_at >= ? AND opened_at <= ? AND outcome IN ('completed', 'interrupted')
ORDER BY opened

-- name: call_begun
SELECT {AuditEntry} FROM audit
WHERE task_id = ? AND tool_call_id = ? AND author_actor_id = ? AND sequence < ?
    AND kind = 'ToolCallRequested'
ORDER BY sequence DESC LIMIT 1

-- conversation

-- name: messages
SELECT {Message} FROM messages WHERE task_id = ? AND seq > ? ORDER BY seq

-- name: messages_of_tickets
SELECT {Message} FROM messages
WHERE task_id IN (SELECT id FROM tasks WHERE parent_id = ? AND workflow = 'ticket')
ORDER BY task_id, seq

-- name: thread
SELECT entry FROM threads WHERE thread = ? ORDER BY place

-- journal

-- name: steps
SELECT {Step} FROM steps WHERE task_id = ? ORDER BY opened

-- name: turns
SELECT {Turn}, opened FROM turns WHERE task_id IN (SELECT id FROM with_tickets WHERE task_id = ?)
ORDER BY opened LIMIT 9223372036854775807 OFFSET ?

-- name: spending
WITH given (since) AS (VALUES (?))
SELECT {Turn}, opened FROM turns WHERE opened_at >= (SELECT since FROM given) AND task_id IN (
    SELECT id FROM tasks JOIN given ON changed_at >= since
    UNION SELECT id FROM tasks WHERE status NOT IN ('completed', 'failed', 'canceled')
) ORDER BY opened_at, task_id, opened

-- name: spending_of_task
SELECT {Turn}, opened FROM turns
WHERE task_id IN (
    WITH RECURSIVE below (id) AS (
        SELECT id FROM tasks WHERE id = ?
        UNION SELECT t.id FROM tasks AS t JOIN below AS b ON t.parent_id = b.id
    ) SELECT id FROM below
) AND opened_at >= ? ORDER BY opened_at, opened

-- tickets

-- name: envelopes
SELECT sequence, body FROM envelopes WHERE session_id = ? AND sequence > ? ORDER BY sequence

-- name: tickets
SELECT {Ticket} FROM tickets WHERE session_id = ? ORDER BY made

-- name: ticket_history
SELECT ticket_id, {Moment} FROM ticket_history WHERE session_id = ? ORDER BY ticket_id, place

-- leases

-- name: insert_lease
INSERT INTO leases (task_id, owner, token, state) VALUES (?, ?, 1, ?)
ON CONFLICT DO NOTHING RETURNING token

-- name: claim_lease
UPDATE leases SET owner = ?, token = token + 1, state = 'reclaiming'
WHERE task_id = ? AND token = ? RETURNING token

-- name: confirm_lease
UPDATE leases SET state = 'running'
WHERE task_id = ? AND token = ? AND state = 'reclaiming' RETURNING token

-- name: give_up_lease
UPDATE leases SET state = 'parked' WHERE task_id = ? AND token = ?

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

-- name: drop_reservation
DELETE FROM reservations WHERE task_id = ? AND step = ?

-- notifications

-- name: queue_notification
INSERT INTO notifications (incident, task_id, at, state, problem) VALUES (?, ?, ?, 'due', '')
ON CONFLICT DO NOTHING

-- name: notifications_due
SELECT {PendingNotification} FROM notifications WHERE state = 'due' ORDER BY at, incident

-- name: claim_notification
UPDATE notifications SET state = 'sending' WHERE incident = ? AND state = 'due' RETURNING 1

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

-- name: delete_requests_of_kind
DELETE FROM requests WHERE task_id = ? AND kind = ?

-- name: member_states
SELECT {SetMemberState} FROM member_states
WHERE task_id = coalesce(?, task_id) ORDER BY task_id, member
