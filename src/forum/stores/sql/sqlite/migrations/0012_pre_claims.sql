-- The runs that workers have claimed, and drive.  A claim holds while the lease of its worker does.
CREATE TABLE claim (
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    worker  TEXT    NOT NULL,
    PRIMARY KEY (log, run)
) WITHOUT ROWID;

CREATE INDEX claim_worker ON claim (log, worker);
