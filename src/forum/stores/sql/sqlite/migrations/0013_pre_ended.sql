-- The runs that have ended and whose rows beside the log are still there: account, timers and
-- idempotency keys.  The commit that closes a run adds its row, and the clean-up deletes both.
CREATE TABLE ended (
    log     INTEGER NOT NULL REFERENCES log,
    run     TEXT    NOT NULL,
    parent  TEXT    NOT NULL,  -- the run that delegated it; empty if there is none
    at      INTEGER NOT NULL,  -- in microseconds since 1970
    PRIMARY KEY (log, run)
) WITHOUT ROWID;

CREATE INDEX ended_at ON ended (log, at);

-- Runs that ended before this migration count as ended now.  A run that a process of the previous
-- release closes after it keeps its rows, as it did before.
INSERT INTO ended (log, run, parent, at)
SELECT log, run,
    CASE WHEN place = 0 THEN '' ELSE substr(
        substr(facts, place + 14), 1, instr(substr(facts, place + 14), '"') - 1
    ) END,
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
FROM (
    SELECT log, run, facts, instr(facts, '"parent_run":"') AS place FROM (
        SELECT strand.log, strand.run, coalesce((
            SELECT CAST(bytes AS TEXT) FROM entry WHERE entry.strand = strand.id AND n = 1
        ), '') AS facts, (
            SELECT CAST(bytes AS TEXT) FROM entry WHERE entry.strand = strand.id
            ORDER BY n DESC LIMIT 1
        ) AS last
        FROM (SELECT log, run FROM account UNION SELECT log, run FROM once) AS kept
        JOIN strand ON strand.log = kept.log AND strand.run = kept.run AND strand.name = 'main'
    ) WHERE instr(last, '"kind":"run.close/1"') > 0
);
