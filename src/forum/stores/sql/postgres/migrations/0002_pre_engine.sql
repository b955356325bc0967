-- What stands beside the log, for those who do the work.  These rows are changed and deleted: what
-- happened is told by the entries, and an account only adds up what they say.

-- With room in every page: a charge then touches no index.
CREATE TABLE forum.account (
    log         integer NOT NULL,
    run         text    COLLATE "C" NOT NULL,
    usd_cap     bigint  NOT NULL,  -- nano-dollars
    tokens_cap  bigint  NOT NULL,
    calls_cap   bigint  NOT NULL,
    usd         bigint  NOT NULL DEFAULT 0,  -- spent or reserved; an overrun passes the cap
    tokens      bigint  NOT NULL DEFAULT 0,
    calls       bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (log, run)
) WITH (fillfactor = 50);

-- Times are microseconds since 1970, by the clock of the database.
CREATE TABLE forum.alarm (
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    strand  text    COLLATE "C" NOT NULL,
    at      bigint  NOT NULL,
    PRIMARY KEY (log, run, strand)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX alarm_due ON forum.alarm (log, at);

CREATE TABLE forum.lease (
    log     integer NOT NULL,
    worker  text    COLLATE "C" NOT NULL,
    until   bigint  NOT NULL,
    PRIMARY KEY (log, worker)
);
