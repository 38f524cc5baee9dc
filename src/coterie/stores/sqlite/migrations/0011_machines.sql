-- On which machine a turn was taken: an agent's thread is known nowhere else.  NULL: on this one.

ALTER TABLE turns ADD COLUMN machine TEXT;
