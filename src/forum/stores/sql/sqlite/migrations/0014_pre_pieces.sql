-- Bodies that repeat what earlier bodies of their run say are stored as spans of pieces.  Pieces and
-- lists stand under the strand `main` of the run, so that no list can name bytes of another run.
-- Releases before this one cannot read such a body: none is written before migration 15.
CREATE TABLE piece (
    strand  INTEGER NOT NULL REFERENCES strand,
    number  INTEGER NOT NULL,
    start   INTEGER NOT NULL,  -- where the data begins in the piece; what was erased leaves a gap
    data    BLOB    NOT NULL,
    PRIMARY KEY (strand, number, start)
);

CREATE TABLE span_list (
    strand  INTEGER NOT NULL REFERENCES strand,
    number  INTEGER NOT NULL,  -- its own piece has the same
    base    INTEGER,           -- the list whose first spans it begins with
    kept    INTEGER NOT NULL,  -- how many
    spans   BLOB    NOT NULL,  -- the others
    PRIMARY KEY (strand, number)
);

-- Numbers are given once.  A writer that remembers bodies forgets them when the erasures were more.
CREATE TABLE piece_head (
    strand      INTEGER PRIMARY KEY REFERENCES strand,
    next        INTEGER NOT NULL,
    erasures    INTEGER NOT NULL DEFAULT 0
);

-- Without a list, the body is its data, as before.
ALTER TABLE body ADD COLUMN list INTEGER;
