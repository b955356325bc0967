-- Caps over many runs.  A process takes a slice of a cap (held) in a commit of its own, and spends
-- from it in the commits of its calls.  The row without an owner counts what processes have used
-- that have ended.
CREATE TABLE budget (
    log         INTEGER NOT NULL REFERENCES log,
    period      TEXT    NOT NULL,  -- 2026-11-16 or 2026-11: UTC, by the clock of the database
    scope       TEXT    NOT NULL,
    owner       TEXT    NOT NULL,
    until       INTEGER NOT NULL,  -- the end of the period, in microseconds since 1970
    usd_held    INTEGER NOT NULL DEFAULT 0,  -- nano-dollars
    tokens_held INTEGER NOT NULL DEFAULT 0,
    runs_held   INTEGER NOT NULL DEFAULT 0,
    usd         INTEGER NOT NULL DEFAULT 0,  -- spent or reserved; an overrun passes what is held
    tokens      INTEGER NOT NULL DEFAULT 0,
    runs        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (log, period, scope, owner)
) WITHOUT ROWID
