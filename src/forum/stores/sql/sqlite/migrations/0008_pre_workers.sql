-- For how long a timer was put off when it was last claimed, in microseconds: the next pause of a
-- timer that nobody has set anew is twice as long.  Releases before this one leave it alone.
ALTER TABLE alarm ADD COLUMN pause INTEGER;

-- The worker that drives the run of a timer: while it lives, no other claims the timer.
ALTER TABLE alarm ADD COLUMN driver TEXT;

-- The runs that were interrupted and not resumed, for those who list them.  Whether a run is
-- interrupted is told by its entries.
CREATE TABLE interrupted (
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    PRIMARY KEY (log, run)
) WITHOUT ROWID;
