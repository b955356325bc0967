-- What a list says of each run that has ended, so that it need not read the entries of the run.  It
-- follows from the entries, and its writer has tagged it.  The first list of a run stores its row.
CREATE TABLE forum.run_summary (
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    version integer NOT NULL,
    ended   bigint  NOT NULL,  -- in microseconds since 1970
    data    bytea   NOT NULL,
    tag     bytea,
    PRIMARY KEY (log, run)
);
