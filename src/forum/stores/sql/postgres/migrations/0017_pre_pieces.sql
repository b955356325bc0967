-- Bodies that repeat what earlier bodies of their run say are stored as spans of pieces.  Pieces and
-- lists stand under the strand `main` of the run, so that no list can name bytes of another run.
-- Releases before this one cannot read such a body: none is written before migration 18.
CREATE TABLE forum.piece (
    log     integer NOT NULL,
    strand  bigint  NOT NULL,
    number  bigint  NOT NULL,
    start   bigint  NOT NULL,  -- where the data begins in the piece; what was erased leaves a gap
    data    bytea   NOT NULL,
    PRIMARY KEY (log, strand, number, start)
);

CREATE TABLE forum.span_list (
    log     integer NOT NULL,
    strand  bigint  NOT NULL,
    number  bigint  NOT NULL,  -- its own piece has the same
    base    bigint,            -- the list whose first spans it begins with
    kept    integer NOT NULL,  -- how many
    spans   bytea   NOT NULL,  -- the others
    PRIMARY KEY (log, strand, number)
);

-- Numbers are given once.  A writer that remembers bodies forgets them when the erasures were more.
-- With room in the page, a change touches no index.
CREATE TABLE forum.piece_head (
    log         integer NOT NULL,
    strand      bigint  NOT NULL,
    next        bigint  NOT NULL,
    erasures    bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (log, strand)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- As migration 14 sets them for the other tables that only grow.
ALTER TABLE forum.piece SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);
ALTER TABLE forum.span_list SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);

-- Spans are small numbers that do not shrink: compressing them only costs time.
ALTER TABLE forum.span_list ALTER COLUMN spans SET STORAGE EXTERNAL;

-- Without a list, the body is its data, as before.
ALTER TABLE forum.body ADD COLUMN list bigint;
