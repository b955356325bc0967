-- The runs that workers have claimed, and drive.  A claim holds while the lease of its worker does.
CREATE TABLE forum.claim (
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    worker  text    COLLATE "C" NOT NULL,
    PRIMARY KEY (log, run)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX claim_worker ON forum.claim (log, worker);
