-- By its tag the sequencer knows that a writer of this log wrote an entry: a key id and a MAC.
-- Releases before this one write none, so it may be missing.
ALTER TABLE forum.entry ADD COLUMN tag bytea;
ALTER TABLE forum.once ADD COLUMN tag bytea;

-- The last entry of strands of the log's own run that must not be shortened, tagged by its writer.
CREATE TABLE forum.head (
    log     integer NOT NULL,
    strand  text    COLLATE "C" NOT NULL,
    n       bigint  NOT NULL,
    leaf    bytea   NOT NULL,
    tag     bytea,
    PRIMARY KEY (log, strand)
);

-- Rows that waited for an index and that no writer of the log wrote.
CREATE TABLE forum.quarantine (
    id      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    strand  text    COLLATE "C" NOT NULL,
    n       bigint  NOT NULL,
    bytes   bytea   NOT NULL,
    tag     bytea,
    at      bigint  NOT NULL
);

CREATE INDEX quarantine_log ON forum.quarantine (log, id);

CREATE TABLE forum.quarantine_body (
    quarantine bigint  NOT NULL REFERENCES forum.quarantine ON DELETE CASCADE,
    name       text    COLLATE "C" NOT NULL,
    part       integer NOT NULL,
    salt       bytea   NOT NULL,
    data       bytea   NOT NULL,
    PRIMARY KEY (quarantine, name, part)
);
