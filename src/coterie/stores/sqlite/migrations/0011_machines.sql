-- The machine on which a turn was taken: an agent's thread is known nowhere else.  NULL: this one.

ALTER TABLE turns ADD COLUMN machine TEXT;
