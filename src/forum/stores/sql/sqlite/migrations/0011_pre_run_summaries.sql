-- What a list says of each run that has ended, so that it need not read the entries of the run.  It
-- follows from the entries, and its writer has tagged it.  The first list of a run stores its row.
CREATE TABLE run_summary (
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    version INTEGER NOT NULL,
    ended   INTEGER NOT NULL,  -- in microseconds since 1970
    data    BLOB    NOT NULL,
    tag     BLOB,
    PRIMARY KEY (log, run)
) WITHOUT ROWID;
