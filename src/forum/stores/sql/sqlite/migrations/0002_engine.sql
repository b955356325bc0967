-- What stands beside the log, for those who do the work.  These rows are changed and deleted: what
-- happened is told by the entries, and an account only adds up what they say.

CREATE TABLE account (
    log         INTEGER NOT NULL REFERENCES log,
    run         TEXT    NOT NULL,
    usd_cap     INTEGER NOT NULL,  -- nano-dollars
    tokens_cap  INTEGER NOT NULL,
    calls_cap   INTEGER NOT NULL,
    usd         INTEGER NOT NULL DEFAULT 0,  -- spent or reserved; an overrun passes the cap
    tokens      INTEGER NOT NULL DEFAULT 0,
    calls       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (log, run)
) WITHOUT ROWID;

-- Times are microseconds since 1970, by the clock of the database.
CREATE TABLE alarm (
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    strand  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (log, run, strand)
) WITHOUT ROWID;

CREATE INDEX alarm_due ON alarm (log, at);

CREATE TABLE lease (
    log     INTEGER NOT NULL REFERENCES log,
    worker  TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (log, worker)
) WITHOUT ROWID;
