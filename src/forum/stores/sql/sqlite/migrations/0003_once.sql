-- What clients asked for under names of their own (Idempotency-Key), so that asking again is harmless.
CREATE TABLE once (
    log     INTEGER NOT NULL REFERENCES log,
    name    TEXT    NOT NULL,
    run     TEXT    NOT NULL,
    digest  TEXT    NOT NULL,
    PRIMARY KEY (log, name)
) WITHOUT ROWID;
