-- One ledger file.  Rows of `entry` are only ever added, so their ids follow the order of commits.

CREATE TABLE log (
    id      INTEGER PRIMARY KEY,
    origin  TEXT    NOT NULL UNIQUE,
    size    INTEGER NOT NULL DEFAULT 0,
    root    BLOB    NOT NULL,
    last    INTEGER NOT NULL DEFAULT 0  -- the last entry that has an index
);

CREATE TABLE strand (
    id      INTEGER PRIMARY KEY,
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    UNIQUE (log, run, name)
);

-- UNIQUE (strand, n) is the fence: a position is taken once.
CREATE TABLE entry (
    id      INTEGER PRIMARY KEY,
    strand  INTEGER NOT NULL REFERENCES strand,
    n       INTEGER NOT NULL,
    bytes   BLOB    NOT NULL,
    UNIQUE (strand, n)
);

CREATE TABLE leaf (
    log     INTEGER NOT NULL REFERENCES log,
    idx     INTEGER NOT NULL,
    entry   INTEGER NOT NULL REFERENCES entry,
    prefix  INTEGER NOT NULL,  -- the first eight bytes of the leaf hash, signed
    PRIMARY KEY (log, idx)
) WITHOUT ROWID;

CREATE INDEX leaf_prefix ON leaf (log, prefix);

CREATE TABLE tile (
    log     INTEGER NOT NULL REFERENCES log,
    level   INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    hashes  BLOB    NOT NULL,
    PRIMARY KEY (log, level, idx)
);

CREATE TABLE checkpoint (
    log     INTEGER NOT NULL REFERENCES log,
    size    INTEGER NOT NULL,
    note    BLOB    NOT NULL,
    PRIMARY KEY (log, size)
);

CREATE TABLE body (
    strand  INTEGER NOT NULL REFERENCES strand,
    n       INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    part    INTEGER NOT NULL,
    salt    BLOB    NOT NULL,  -- the same in every part
    data    BLOB    NOT NULL,
    PRIMARY KEY (strand, n, name, part)
);
