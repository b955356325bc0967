-- For how long a timer was put off when it was last claimed, in microseconds: the next pause of a
-- timer that nobody has set anew is twice as long.  Releases before this one leave it alone.
ALTER TABLE forum.alarm ADD COLUMN pause bigint;

-- The worker that drives the run of a timer: while it lives, no other claims the timer.
ALTER TABLE forum.alarm ADD COLUMN driver text COLLATE "C";

-- The runs that were interrupted and not resumed, for those who list them.  Whether a run is
-- interrupted is told by its entries.
CREATE TABLE forum.interrupted (
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    PRIMARY KEY (log, run)
);
