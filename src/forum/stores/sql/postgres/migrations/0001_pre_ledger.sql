-- Every table is keyed by its log first: a log can be moved to another server whole.
CREATE SCHEMA IF NOT EXISTS forum;

CREATE TABLE forum.migration (
    number  integer     PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE forum.log (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    origin  text    NOT NULL UNIQUE,
    size    bigint  NOT NULL DEFAULT 0,
    root    bytea   NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE forum.strand (
    id      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log     integer NOT NULL REFERENCES forum.log,
    run     text    COLLATE "C" NOT NULL,
    name    text    COLLATE "C" NOT NULL,
    UNIQUE (log, run, name)
);

-- The primary key is the fence: a position is taken once.  It is the only index on the path of a
-- commit; strands that are written at the same time have neighbouring ids.
CREATE TABLE forum.entry (
    log     integer NOT NULL,
    strand  bigint  NOT NULL,
    n       bigint  NOT NULL,
    bytes   bytea   NOT NULL,
    PRIMARY KEY (log, strand, n)
);

-- One row for each commit whose entries have no index yet.  A cause is committed before its effect
-- is inserted, so its seq is the smaller one: CACHE must stay 1.
CREATE TABLE forum.pending (
    log     integer  NOT NULL,
    seq     bigint   GENERATED ALWAYS AS IDENTITY (CACHE 1),
    strands bigint[] NOT NULL,
    ns      bigint[] NOT NULL,
    PRIMARY KEY (log, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- One row for each batch: the entries with the indexes first, first + 1, and so on.
CREATE TABLE forum.sequenced (
    log     integer  NOT NULL,
    first   bigint   NOT NULL,
    strands bigint[] NOT NULL,
    ns      bigint[] NOT NULL,
    PRIMARY KEY (log, first)
);

-- Finds an index by the first eight bytes of a leaf hash.
CREATE TABLE forum.leaf (
    log     integer NOT NULL,
    prefix  bigint  NOT NULL,
    idx     bigint  NOT NULL,
    PRIMARY KEY (log, prefix, idx)
);

CREATE TABLE forum.tile (
    log     integer  NOT NULL,
    level   smallint NOT NULL,
    idx     bigint   NOT NULL,
    hashes  bytea    NOT NULL,
    PRIMARY KEY (log, level, idx)
);

CREATE TABLE forum.checkpoint (
    log     integer NOT NULL,
    size    bigint  NOT NULL,
    note    bytea   NOT NULL,
    PRIMARY KEY (log, size)
);

CREATE TABLE forum.body (
    log     integer NOT NULL,
    strand  bigint  NOT NULL,
    n       bigint  NOT NULL,
    name    text    COLLATE "C" NOT NULL,
    part    integer NOT NULL,
    salt    bytea   NOT NULL,  -- the same in every part
    data    bytea   NOT NULL,
    PRIMARY KEY (log, strand, n, name, part)
);

-- Entries are small and hashes do not shrink: compressing either only costs time.
ALTER TABLE forum.entry ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE forum.tile ALTER COLUMN hashes SET STORAGE EXTERNAL;
