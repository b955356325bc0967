-- The runs that have ended and whose rows beside the log are still there: account, timers and
-- idempotency keys.  The commit that closes a run adds its row, and the clean-up deletes both.
CREATE TABLE forum.ended (
    log     integer NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    parent  text    COLLATE "C" NOT NULL,  -- the run that delegated it; empty if there is none
    at      bigint  NOT NULL,  -- in microseconds since 1970, by the clock of the database
    PRIMARY KEY (log, run)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX ended_at ON forum.ended (log, at);

-- Runs that ended before this migration count as ended now.  A run that a process of the previous
-- release closes after it keeps its rows, as it did before.
INSERT INTO forum.ended (log, run, parent, at)
SELECT s.log, s.run,
    coalesce(substring(encode(accepted.bytes, 'escape') FROM '"parent_run":"([^"]+)"'), ''),
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM (
    SELECT log, run FROM forum.account UNION SELECT log, run FROM forum.once
) AS kept
JOIN forum.strand s ON s.log = kept.log AND s.run = kept.run AND s.name = 'main'
CROSS JOIN LATERAL (
    SELECT bytes FROM forum.entry WHERE log = s.log AND strand = s.id ORDER BY n DESC LIMIT 1
) AS last
LEFT JOIN forum.entry AS accepted
    ON accepted.log = s.log AND accepted.strand = s.id AND accepted.n = 1
WHERE position('"kind":"run.close/1"'::bytea IN last.bytes) > 0;
