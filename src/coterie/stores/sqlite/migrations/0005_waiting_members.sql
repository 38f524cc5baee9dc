-- What a member waits for, and until when, as data.

ALTER TABLE member_states ADD COLUMN waits_for TEXT;
ALTER TABLE member_states ADD COLUMN until TEXT;
