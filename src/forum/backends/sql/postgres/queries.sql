-- The time is statement_timestamp(): that of the server, and one for all rows of a statement, so
-- that an index can serve.  clock_timestamp() is another for each row; now() is as old as the
-- transaction.

-- name: version
SELECT coalesce(max(number), 0) FROM forum.migration
-- name: has_schema
SELECT to_regclass('forum.migration') IS NOT NULL
-- name: add_migration
INSERT INTO forum.migration (number) VALUES (%s)
-- name: durability
SELECT current_setting('fsync'), current_setting('synchronous_commit')
-- name: add_log
INSERT INTO forum.log (origin, root) VALUES (%s, %s) ON CONFLICT DO NOTHING
-- name: log
SELECT id FROM forum.log WHERE origin = %(origin)s
-- name: lead
SELECT pg_try_advisory_lock(hashtext('forum.sequencer'), %s)
-- name: add_strands
INSERT INTO forum.strand (log, run, name)
SELECT %(log)s, run, name FROM unnest(%(runs)s::text[], %(names)s::text[]) AS new (run, name)
ON CONFLICT DO NOTHING RETURNING run, name, id
-- name: strand
SELECT id FROM forum.strand WHERE log = %(log)s AND run = %(run)s AND name = %(name)s
-- name: strand_ids
SELECT strand.run, strand.name, strand.id
FROM unnest(%(runs)s::text[], %(names)s::text[]) AS wanted (run, name)
CROSS JOIN LATERAL (
    SELECT * FROM forum.strand
    WHERE log = %(log)s AND run = wanted.run AND name = wanted.name
) AS strand
-- name: append
WITH new AS (
    INSERT INTO forum.entry (log, strand, n, bytes)
    SELECT %(log)s, strand, n, bytes
    FROM unnest(%(strands)b::bigint[], %(ns)b::bigint[], %(bytes)b::bytea[]) AS u (strand, n, bytes)
)
INSERT INTO forum.pending (log, strands, ns)
VALUES (%(log)s, %(strands)b::bigint[], %(ns)b::bigint[])
-- name: add_bodies
INSERT INTO forum.body (log, strand, n, name, part, salt, data)
SELECT %s, strand, n, name, part, salt, data FROM unnest(
    %b::bigint[], %b::bigint[], %b::text[], %b::integer[], %b::bytea[], %b::bytea[]
) AS u (strand, n, name, part, salt, data)
-- name: head
SELECT size, root FROM forum.log WHERE id = %(log)s
-- name: tile
SELECT substring(hashes FROM 1 FOR %(length)s) FROM forum.tile
WHERE log = %(log)s AND level = %(level)s AND idx = %(idx)s
-- name: entries
SELECT s.first + u.place - 1, (
    SELECT bytes FROM forum.entry e WHERE e.log = s.log AND e.strand = u.strand AND e.n = u.n
)
FROM forum.sequenced s, unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)
WHERE s.log = %(log)s AND s.first < %(stop)s AND s.first >= (
    SELECT max(first) FROM forum.sequenced WHERE log = %(log)s AND first <= %(start)s
) AND s.first + u.place - 1 >= %(start)s AND s.first + u.place - 1 < %(stop)s
ORDER BY s.first, u.place
-- name: find
SELECT idx FROM forum.leaf
WHERE log = %(log)s AND prefix BETWEEN %(low)s AND %(high)s ORDER BY idx
-- name: indexes
SELECT prefix, idx FROM forum.leaf WHERE log = %(log)s AND prefix = ANY(%(prefixes)s)
-- name: strand_entries
SELECT n, bytes FROM forum.entry
WHERE log = %(log)s AND strand = %(strand)s AND n >= %(n)s ORDER BY n LIMIT %(limit)s
-- name: last
SELECT bytes FROM forum.entry
WHERE log = %(log)s AND strand = %(strand)s ORDER BY n DESC LIMIT 1
-- name: strands
SELECT name FROM forum.strand WHERE log = %(log)s AND run = %(run)s ORDER BY name
-- name: runs
SELECT DISTINCT run FROM forum.strand
WHERE log = %(log)s AND run > %(run)s ORDER BY run LIMIT %(limit)s
-- name: runs_before
SELECT DISTINCT run FROM forum.strand
WHERE log = %(log)s AND run < %(run)s ORDER BY run DESC LIMIT %(limit)s
-- name: last_runs
SELECT DISTINCT run FROM forum.strand WHERE log = %(log)s ORDER BY run DESC LIMIT %(limit)s
-- name: body_salt
SELECT salt FROM forum.body
WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s AND name = %(name)s AND part = 0
-- name: body_part
SELECT data FROM forum.body WHERE log = %(log)s
AND strand = %(strand)s AND n = %(n)s AND name = %(name)s AND part = %(part)s
-- name: erase
DELETE FROM forum.body
WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s AND name = %(name)s
-- name: checkpoints
SELECT size, note FROM forum.checkpoint
WHERE log = %(log)s AND size >= %(size)s ORDER BY size LIMIT %(limit)s
-- name: checkpoint
SELECT note FROM forum.checkpoint
WHERE log = %(log)s AND size <= %(size)s ORDER BY size DESC LIMIT 1
-- name: save_checkpoint
INSERT INTO forum.checkpoint AS old (log, size, note) VALUES (%s, %s, %s)
ON CONFLICT (log, size) DO UPDATE SET note = excluded.note
WHERE length(excluded.note) > length(old.note)
-- name: waiting
SELECT p.seq, u.strand, u.n, (
    SELECT sha256('\x00'::bytea || bytes) FROM forum.entry e
    WHERE e.log = p.log AND e.strand = u.strand AND e.n = u.n
)
FROM (
    SELECT *, sum(cardinality(ns)) OVER (ORDER BY seq) - cardinality(ns) AS before
    FROM (
        SELECT * FROM forum.pending WHERE log = %(log)s ORDER BY seq LIMIT %(limit)s
    ) AS next
) AS p, unnest(p.strands, p.ns) WITH ORDINALITY AS u (strand, n, place)
WHERE p.before < %(limit)s
ORDER BY p.seq, u.place
-- name: unsequenced
SELECT (
    SELECT bytes FROM forum.entry e WHERE e.log = p.log AND e.strand = u.strand AND e.n = u.n
)
FROM forum.pending p, unnest(p.strands, p.ns) WITH ORDINALITY AS u (strand, n, place)
WHERE p.log = %(log)s ORDER BY p.seq, u.place
-- name: stored
SELECT count(*) FROM forum.entry WHERE log = %(log)s
-- name: backlog
SELECT coalesce(sum(cardinality(ns)), 0)::bigint FROM forum.pending WHERE log = %(log)s
-- name: swap
UPDATE forum.log SET size = %s, root = %s WHERE id = %s AND size = %s AND root = %s
-- name: remove_pending
DELETE FROM forum.pending WHERE log = %s AND seq = ANY(%s)
-- name: add_sequenced
INSERT INTO forum.sequenced (log, first, strands, ns) VALUES (%s, %s, %b, %b)
-- name: add_leaves
INSERT INTO forum.leaf (log, prefix, idx)
SELECT %s, prefix, idx FROM unnest(%b::bigint[], %b::bigint[]) AS u (prefix, idx)
-- name: put_tile
INSERT INTO forum.tile (log, level, idx, hashes) VALUES (%s, %s, %s, %s)
ON CONFLICT (log, level, idx) DO UPDATE SET hashes = excluded.hashes
-- name: now
SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
-- name: open_accounts
INSERT INTO forum.account (log, run, usd_cap, tokens_cap, calls_cap)
SELECT %(log)s, run, usd, tokens, calls FROM unnest(
    %(runs)b::text[], %(usd)b::bigint[], %(tokens)b::bigint[], %(calls)b::bigint[]
) AS u (run, usd, tokens, calls) ON CONFLICT DO NOTHING
-- name: charge
UPDATE forum.account SET
    usd = usd + %(usd)s, tokens = tokens + %(tokens)s, calls = calls + %(calls)s
WHERE log = %(log)s AND run = %(run)s AND (NOT %(guarded)s OR (
    (%(usd)s <= 0 OR usd + %(usd)s <= usd_cap)
    AND (%(tokens)s <= 0 OR tokens + %(tokens)s <= tokens_cap)
    AND (%(calls)s <= 0 OR calls + %(calls)s <= calls_cap)
))
-- name: account
SELECT usd_cap, tokens_cap, calls_cap, usd, tokens, calls
FROM forum.account WHERE log = %(log)s AND run = %(run)s
-- name: ask_once
INSERT INTO forum.once (log, name, run, digest)
VALUES (%(log)s, %(name)s, %(run)s, %(digest)s) ON CONFLICT DO NOTHING
-- name: forget_asked
UPDATE forum.once SET digest = '' WHERE log = %(log)s AND run = %(run)s
-- name: asked
SELECT run, digest FROM forum.once WHERE log = %(log)s AND name = %(name)s
-- name: set_alarms
INSERT INTO forum.alarm (log, run, strand, at)
SELECT %(log)s, run, strand, at
FROM unnest(%(runs)b::text[], %(strands)b::text[], %(ats)b::bigint[]) AS u (run, strand, at)
ON CONFLICT (log, run, strand) DO UPDATE SET at = excluded.at
-- name: clear_alarms
DELETE FROM forum.alarm AS old
USING unnest(%(runs)b::text[], %(strands)b::text[]) AS u (run, strand)
WHERE old.log = %(log)s AND old.run = u.run AND old.strand = u.strand
-- name: alarms
SELECT run, strand, at FROM forum.alarm
WHERE log = %(log)s AND (run, strand) > (%(run)s, %(strand)s)
ORDER BY run, strand LIMIT %(limit)s
-- name: alarm
SELECT run, strand, at FROM forum.alarm
WHERE log = %(log)s AND run = %(run)s AND strand = %(strand)s
-- name: due_alarms
-- What is due is few of many: found by its time, whatever a planner expects of the limit.
WITH due AS MATERIALIZED (
    SELECT run, strand, at FROM forum.alarm
    WHERE log = %(log)s AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
)
SELECT run, strand, at FROM due WHERE (run, strand) > (%(run)s, %(strand)s)
ORDER BY run, strand LIMIT %(limit)s
-- name: snooze
UPDATE forum.alarm
SET at = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(micros)s
WHERE log = %(log)s AND run = %(run)s AND strand = %(strand)s AND at = %(at)s
-- name: silence
DELETE FROM forum.alarm
WHERE log = %(log)s AND run = %(run)s AND strand = %(strand)s AND at = %(at)s
-- name: hold_lease
INSERT INTO forum.lease (log, worker, until) VALUES (
    %(log)s, %(worker)s,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(micros)s
)
ON CONFLICT (log, worker) DO UPDATE SET until = excluded.until
-- name: drop_lease
DELETE FROM forum.lease WHERE log = %(log)s AND worker = %(worker)s
-- name: workers
SELECT worker FROM forum.lease WHERE log = %(log)s
-- name: lost_workers
SELECT worker FROM forum.lease
WHERE log = %(log)s AND until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
