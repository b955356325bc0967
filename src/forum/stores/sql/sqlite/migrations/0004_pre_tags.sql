-- By its tag the sequencer knows that a writer of this log wrote an entry: a key id and a MAC.
-- Releases before this one write none, so it may be missing.
ALTER TABLE entry ADD COLUMN tag BLOB;

ALTER TABLE once ADD COLUMN tag BLOB;

-- The last entry of strands of the log's own run that must not be shortened, tagged by its writer.
CREATE TABLE head (
    log     INTEGER NOT NULL REFERENCES log,
    strand  TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    leaf    BLOB    NOT NULL,
    tag     BLOB,
    PRIMARY KEY (log, strand)
) WITHOUT ROWID;

-- Rows that waited for an index and that no writer of the log wrote.
CREATE TABLE quarantine (
    id      INTEGER PRIMARY KEY,
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    strand  TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    bytes   BLOB    NOT NULL,
    tag     BLOB,
    at      INTEGER NOT NULL
);

CREATE TABLE quarantine_body (
    quarantine INTEGER NOT NULL REFERENCES quarantine ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    part       INTEGER NOT NULL,
    salt       BLOB    NOT NULL,
    data       BLOB    NOT NULL,
    PRIMARY KEY (quarantine, name, part)
) WITHOUT ROWID;
