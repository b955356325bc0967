-- Erasing a body forgets what was asked for in its run.
CREATE INDEX once_run ON forum.once (log, run);
