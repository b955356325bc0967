-- All times are statement_timestamp(): the server's clock, constant during a statement, so that
-- comparisons can use an index.  clock_timestamp() differs from row to row, and now() is the start
-- of the transaction.

-- name: migrations
SELECT number FROM forum.migration
-- name: has_schema
SELECT to_regclass('forum.migration') IS NOT NULL
-- name: add_migration
INSERT INTO forum.migration (number) VALUES (%s)
-- name: has_additions
SELECT to_regclass('forum.addition') IS NOT NULL
-- name: make_additions
CREATE TABLE IF NOT EXISTS forum.addition (
    number  integer     PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
)
-- name: additions
SELECT number FROM forum.addition
-- name: add_addition
INSERT INTO forum.addition (number) VALUES (%s)
-- name: durability
SELECT current_setting('fsync'), current_setting('synchronous_commit')
-- name: add_log
INSERT INTO forum.log (origin, root) VALUES (%s, %s) ON CONFLICT DO NOTHING
-- name: log
SELECT id FROM forum.log WHERE origin = %(origin)s
-- name: identity
-- The timeline of the log that is written now; the control file may lag behind a promotion.
SELECT system_identifier,
    CASE WHEN pg_is_in_recovery() THEN NULL
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
    extract(epoch FROM pg_postmaster_start_time())::float8
FROM pg_control_system()
-- name: lead
SELECT pg_try_advisory_lock(hashtext('forum.sequencer'), %s)
-- name: stop_leading
SELECT pg_advisory_unlock(hashtext('forum.sequencer'), %s)
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
-- No row is inserted while the log is not here, or when its next epoch begins.  A move and an
-- epoch wait for the statements that began before their row was committed.
WITH here AS MATERIALIZED (
    SELECT WHERE NOT EXISTS (SELECT FROM forum.move WHERE log = %(log)s AND state <> 'copying')
        AND NOT EXISTS (SELECT FROM forum.head WHERE log = %(log)s AND strand = 'ended')
), new AS (
    INSERT INTO forum.entry (log, strand, n, bytes, tag)
    SELECT %(log)s, strand, n, bytes, tag FROM here, unnest(
        %(strands)b::bigint[], %(ns)b::bigint[], %(bytes)b::bytea[], %(tags)b::bytea[]
    ) AS u (strand, n, bytes, tag)
)
INSERT INTO forum.pending (log, strands, ns)
SELECT %(log)s, %(strands)b::bigint[], %(ns)b::bigint[] FROM here
-- name: add_own_entries
INSERT INTO forum.entry (log, strand, n, bytes, tag)
SELECT %(log)s, strand, n, bytes, tag FROM unnest(
    %(strands)b::bigint[], %(ns)b::bigint[], %(bytes)b::bytea[], %(tags)b::bytea[]
) AS u (strand, n, bytes, tag)
-- name: add_bodies
INSERT INTO forum.body (log, strand, n, name, part, salt, data, list)
SELECT %s, strand, n, name, part, salt, data, list FROM unnest(
    %b::bigint[], %b::bigint[], %b::text[], %b::integer[], %b::bytea[], %b::bytea[], %b::bigint[]
) AS u (strand, n, name, part, salt, data, list)
-- name: reserve_lists
-- Somebody may have removed the row or set the number back: no list gets the number of another.
INSERT INTO forum.piece_head AS head (log, strand, next)
VALUES (%(log)s, %(strand)s, %(count)s::bigint + coalesce((
    SELECT number + 1 FROM forum.span_list WHERE log = %(log)s AND strand = %(strand)s
    ORDER BY number DESC LIMIT 1
), 0))
ON CONFLICT (log, strand) DO UPDATE
SET next = greatest(head.next + %(count)s::bigint, excluded.next) RETURNING next, erasures
-- name: begin_release
INSERT INTO forum.piece_head AS head (log, strand, next, erasures)
SELECT %(log)s, %(strand)s, coalesce((
    SELECT number + 1 FROM forum.span_list WHERE log = %(log)s AND strand = %(strand)s
    ORDER BY number DESC LIMIT 1
), 0), 1
WHERE EXISTS (SELECT FROM forum.piece_head WHERE log = %(log)s AND strand = %(strand)s)
    OR EXISTS (SELECT FROM forum.piece WHERE log = %(log)s AND strand = %(strand)s)
ON CONFLICT (log, strand) DO UPDATE SET erasures = head.erasures + 1
-- name: add_piece
INSERT INTO forum.piece (log, strand, number, start, data)
VALUES (%(log)s, %(strand)s, %(number)s, %(start)s, %(data)b)
-- name: add_pieces
INSERT INTO forum.piece (log, strand, number, start, data)
SELECT %s, strand, number, start, data FROM unnest(
    %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[]
) AS u (strand, number, start, data)
-- name: add_lists
INSERT INTO forum.span_list (log, strand, number, base, kept, spans)
SELECT %s, strand, number, base, kept, spans FROM unnest(
    %b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::bytea[]
) AS u (strand, number, base, kept, spans)
-- name: span_lists
SELECT number, base, kept, spans FROM forum.span_list
WHERE log = %(log)s AND strand = %(strand)s
-- name: recent_lists
SELECT number, base, kept, spans FROM forum.span_list
WHERE log = %(log)s AND strand = %(strand)s AND number < %(stop)s
ORDER BY number DESC LIMIT %(limit)s
-- name: list_chain
-- A list that somebody has changed may lead back to itself: the number of rows is bounded.
WITH RECURSIVE chain (number, base, kept, spans, place) AS (
    SELECT number, base, kept, spans, 1 FROM forum.span_list
    WHERE log = %(log)s AND strand = %(strand)s AND number = %(number)s
    UNION ALL
    SELECT l.number, l.base, l.kept, l.spans, place + 1
    FROM chain JOIN forum.span_list AS l
        ON l.log = %(log)s AND l.strand = %(strand)s AND l.number = chain.base
    WHERE place < %(limit)s
)
SELECT number, base, kept, spans FROM chain
-- name: pieces
SELECT number, start, data FROM forum.piece
WHERE log = %(log)s AND strand = %(strand)s AND number = ANY(%(numbers)s::bigint[])
ORDER BY number, start
-- name: piece_sizes
SELECT number, sum(length(data))::bigint FROM forum.piece
WHERE log = %(log)s AND strand = %(strand)s AND number = ANY(%(numbers)s::bigint[]) GROUP BY number
-- name: lock_bodies
-- It deletes nothing, and takes the lock of a statement that does.
DELETE FROM forum.body WHERE log = %(log)s AND false
-- name: piece_ranges
SELECT number, start, length(data) FROM forum.piece
WHERE log = %(log)s AND strand = %(strand)s ORDER BY number, start
-- name: piece_data
SELECT data FROM forum.piece
WHERE log = %(log)s AND strand = %(strand)s AND number = %(number)s AND start = %(start)s
-- name: remove_piece
DELETE FROM forum.piece
WHERE log = %(log)s AND strand = %(strand)s AND number = %(number)s AND start = %(start)s
-- name: remove_lists
DELETE FROM forum.span_list
WHERE log = %(log)s AND strand = %(strand)s AND number = ANY(%(numbers)s::bigint[])
-- name: lists_in_use
SELECT DISTINCT body.list FROM forum.strand
JOIN forum.body ON body.log = strand.log AND body.strand = strand.id
WHERE strand.log = %(log)s AND strand.run = %(run)s AND body.list IS NOT NULL
-- name: lists_of_entry
SELECT name, list FROM forum.body
WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s AND list IS NOT NULL
-- name: set_quarantine_body
UPDATE forum.quarantine_body SET data = %(data)b
WHERE quarantine = %(quarantine)s AND name = %(name)s AND part = 0
-- name: writes_shared_bodies
SELECT EXISTS (SELECT FROM forum.migration WHERE number = %(number)s)
-- name: head
SELECT size, root FROM forum.log WHERE id = %(log)s
-- name: watched_head
SELECT size, root, EXISTS (
    SELECT FROM forum.head WHERE head.log = log.id AND strand = ANY(%(marks)s::text[])
) FROM forum.log WHERE id = %(log)s
-- name: tile
SELECT substring(hashes FROM 1 FOR %(length)s) FROM forum.tile
WHERE log = %(log)s AND level = %(level)s AND idx = %(idx)s
-- name: entries
SELECT s.first + u.place - 1, t.run, t.name, u.n, e.bytes, e.tag
FROM forum.sequenced s CROSS JOIN unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)
LEFT JOIN LATERAL (
    SELECT bytes, tag FROM forum.entry WHERE log = s.log AND strand = u.strand AND n = u.n OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT run, name FROM forum.strand WHERE id = u.strand AND log = s.log OFFSET 0
) AS t ON true
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
SELECT n, bytes, tag FROM forum.entry
WHERE log = %(log)s AND strand = %(strand)s AND n >= %(n)s ORDER BY n LIMIT %(limit)s
-- name: last
SELECT n, bytes, tag FROM forum.entry
WHERE log = %(log)s AND strand = %(strand)s ORDER BY n DESC LIMIT 1
-- name: last_entries
-- Bounds as in bodies_at.
SELECT e.n, e.bytes, e.tag
FROM unnest(%(runs)s::text[], %(names)s::text[]) WITH ORDINALITY AS u (run, name, place)
LEFT JOIN LATERAL (
    SELECT id FROM forum.strand
    WHERE log = %(log)s AND run = u.run COLLATE "C" AND name = u.name COLLATE "C" OFFSET 0
) AS s ON true
LEFT JOIN LATERAL (
    SELECT n, bytes, tag FROM forum.entry
    WHERE log = %(log)s AND strand = s.id AND strand BETWEEN %(low)s AND %(high)s
    ORDER BY n DESC LIMIT 1
) AS e ON true
ORDER BY u.place
-- name: strands
SELECT name FROM forum.strand WHERE log = %(log)s AND run = %(run)s ORDER BY name
-- name: strand_lengths
SELECT id, name, (
    SELECT coalesce(max(n), -1) + 1 FROM forum.entry e WHERE e.log = s.log AND e.strand = s.id
)
FROM forum.strand s WHERE log = %(log)s AND run = %(run)s ORDER BY name
-- name: first_entries
SELECT s.id, s.name, e.n, e.bytes, e.tag FROM forum.strand AS s CROSS JOIN LATERAL (
    SELECT n, bytes, tag FROM forum.entry WHERE log = s.log AND strand = s.id
    ORDER BY n LIMIT %(limit)s
) AS e
WHERE s.log = %(log)s AND s.run = %(run)s ORDER BY s.name, e.n LIMIT %(limit)s
-- name: entries_of_strands
SELECT strand, n, bytes, tag FROM forum.entry
WHERE log = %(log)s AND strand = ANY(%(strands)s) AND strand BETWEEN %(low)s AND %(high)s
ORDER BY strand, n
-- name: entries_at
SELECT e.bytes, e.tag
FROM unnest(%(strands)s::bigint[], %(ns)s::bigint[]) WITH ORDINALITY AS u (strand, n, place)
LEFT JOIN LATERAL (
    SELECT bytes, tag FROM forum.entry
    WHERE log = %(log)s AND strand = u.strand AND n = u.n OFFSET 0
) AS e ON true
ORDER BY u.place
-- name: bodies_of_strands
SELECT strand, n, name, salt, CASE WHEN length(data) <= %(size)s AND NOT EXISTS (
    SELECT FROM forum.body AS more WHERE more.log = body.log AND more.strand = body.strand
        AND more.n = body.n AND more.name = body.name AND more.part = 1
) THEN data END, list
FROM forum.body WHERE log = %(log)s AND strand = ANY(%(strands)s) AND part = 0
ORDER BY strand, n, name
-- name: runs
SELECT DISTINCT run FROM forum.strand
WHERE log = %(log)s AND run > %(run)s ORDER BY run LIMIT %(limit)s
-- name: runs_before
-- The ids of strands follow the order of their creation, and every run begins with its strand main.
-- One without entries was never opened: its opening was set aside.
SELECT run FROM forum.strand AS s
WHERE log = %(log)s AND name = 'main' AND id < (
    SELECT id FROM forum.strand WHERE log = %(log)s AND run = %(run)s AND name = 'main'
) AND EXISTS (SELECT 1 FROM forum.entry WHERE log = s.log AND strand = s.id) ORDER BY id DESC LIMIT %(limit)s
-- name: last_runs
SELECT run FROM forum.strand AS s
WHERE log = %(log)s AND name = 'main'
    AND EXISTS (SELECT 1 FROM forum.entry WHERE log = s.log AND strand = s.id)
ORDER BY id DESC LIMIT %(limit)s
-- name: summaries
SELECT run, version, ended, data, tag FROM forum.run_summary
WHERE log = %(log)s AND run = ANY(%(runs)s)
-- name: summary_runs
SELECT run FROM forum.run_summary WHERE log = %(log)s AND run > %(run)s
ORDER BY run LIMIT %(limit)s
-- name: set_summary
INSERT INTO forum.run_summary (log, run, version, ended, data, tag)
VALUES (%(log)s, %(run)s, %(version)s, %(ended)s, %(data)s, %(tag)s)
ON CONFLICT (log, run) DO UPDATE SET version = excluded.version, ended = excluded.ended,
    data = excluded.data, tag = excluded.tag
-- name: bodies_at
-- A body whose first part is small may have more parts.
-- The bounds of the strands, where they are known, leave out partitions before anything is looked up.
SELECT s.id, b.salt, CASE WHEN length(b.data) <= %(size)s AND NOT EXISTS (
    SELECT FROM forum.body WHERE log = %(log)s AND strand = s.id AND n = u.n
        AND strand BETWEEN %(low)s AND %(high)s AND name = u.name COLLATE "C" AND part = 1
    OFFSET 0
) THEN b.data END, b.list
FROM unnest(%(runs)s::text[], %(strands)s::text[], %(ns)s::bigint[], %(names)s::text[])
    WITH ORDINALITY AS u (run, strand, n, name, place)
LEFT JOIN LATERAL (
    SELECT id FROM forum.strand
    WHERE log = %(log)s AND run = u.run COLLATE "C" AND name = u.strand COLLATE "C" OFFSET 0
) AS s ON true
LEFT JOIN LATERAL (
    SELECT salt, data, list FROM forum.body
    WHERE log = %(log)s AND strand = s.id AND strand BETWEEN %(low)s AND %(high)s
        AND n = u.n AND name = u.name COLLATE "C" AND part = 0
    OFFSET 0
) AS b ON true
ORDER BY u.place
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
SELECT note, size FROM forum.checkpoint
WHERE log = %(log)s AND size <= least(%(size)s, (SELECT size FROM forum.log WHERE id = %(log)s))
ORDER BY size DESC LIMIT 1
-- name: lock_checkpoint
SELECT note FROM forum.checkpoint WHERE log = %(log)s AND size = %(size)s FOR UPDATE
-- name: save_checkpoint
-- Writers name the checkpoint in their entries, so it must not stay behind.
WITH here AS MATERIALIZED (
    SELECT WHERE NOT EXISTS (SELECT FROM forum.move WHERE log = %(log)s AND state <> 'copying')
        AND NOT EXISTS (
            SELECT FROM forum.head WHERE log = %(log)s AND strand = 'ended' AND n = 0
        )
), saved AS (
    INSERT INTO forum.checkpoint AS old (log, size, note)
    SELECT %(log)s, %(size)s, %(note)s FROM here
    ON CONFLICT (log, size) DO UPDATE SET note = excluded.note
    WHERE length(excluded.note) > length(old.note)
)
SELECT FROM here
-- name: waiting
SELECT p.seq, u.strand, t.run, t.name, u.n, e.bytes, e.tag
FROM (
    SELECT *, sum(cardinality(ns)) OVER (ORDER BY seq) - cardinality(ns) AS before
    FROM (
        SELECT * FROM forum.pending WHERE log = %(log)s ORDER BY seq LIMIT %(limit)s
    ) AS next
) AS p CROSS JOIN unnest(p.strands, p.ns) WITH ORDINALITY AS u (strand, n, place)
LEFT JOIN LATERAL (
    SELECT bytes, tag FROM forum.entry WHERE log = p.log AND strand = u.strand AND n = u.n OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT run, name FROM forum.strand WHERE id = u.strand AND log = p.log OFFSET 0
) AS t ON true
WHERE p.before < %(limit)s
ORDER BY p.seq, u.place
-- name: unsequenced
-- scan: reads all entries without an index
SELECT t.run, t.name, u.n, e.bytes, e.tag
FROM forum.pending p CROSS JOIN unnest(p.strands, p.ns) WITH ORDINALITY AS u (strand, n, place)
LEFT JOIN LATERAL (
    SELECT bytes, tag FROM forum.entry WHERE log = p.log AND strand = u.strand AND n = u.n OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT run, name FROM forum.strand WHERE id = u.strand AND log = p.log OFFSET 0
) AS t ON true
WHERE p.log = %(log)s ORDER BY p.seq, u.place
-- name: stored
-- scan: counts all entries
SELECT count(*) FROM forum.entry WHERE log = %(log)s
-- name: pending_span
SELECT (SELECT min(seq) FROM forum.pending WHERE log = %(log)s),
    (SELECT max(seq) FROM forum.pending WHERE log = %(log)s)

-- name: oldest_pending
SELECT count(*), coalesce(sum(cardinality(ns)), 0)::bigint, min(seq), max(seq) FROM (
    SELECT seq, ns FROM forum.pending WHERE log = %(log)s ORDER BY seq LIMIT %(limit)s
) AS sample
-- name: newest_pending
SELECT count(*), coalesce(sum(cardinality(ns)), 0)::bigint, min(seq), max(seq) FROM (
    SELECT seq, ns FROM forum.pending WHERE log = %(log)s ORDER BY seq DESC LIMIT %(limit)s
) AS sample
-- name: count_rows
-- scan: verification counts every table
SELECT
    (SELECT count(*) FROM forum.strand s WHERE log = %(log)s
        AND EXISTS (SELECT FROM forum.entry e WHERE e.log = s.log AND e.strand = s.id)),
    (SELECT count(*) FROM forum.entry WHERE log = %(log)s),
    (SELECT count(*) FROM forum.leaf WHERE log = %(log)s),
    (SELECT coalesce(sum(cardinality(ns)), 0)::bigint FROM forum.pending WHERE log = %(log)s),
    (SELECT count(*) FROM forum.tile WHERE log = %(log)s),
    (SELECT count(*) FROM forum.checkpoint WHERE log = %(log)s),
    (SELECT count(*) FROM forum.body WHERE log = %(log)s AND part = 0),
    (SELECT count(*) FROM forum.head WHERE log = %(log)s),
    (SELECT count(*) FROM forum.account WHERE log = %(log)s),
    1,
    (SELECT count(*) FROM forum.entry e WHERE log = %(log)s AND NOT EXISTS (
        SELECT FROM forum.strand s WHERE s.id = e.strand AND s.log = e.log
    )) + (SELECT count(*) FROM forum.body b WHERE log = %(log)s AND part <> 0 AND NOT EXISTS (
        SELECT FROM forum.body p WHERE p.log = b.log AND p.strand = b.strand AND p.n = b.n
            AND p.name = b.name AND p.part = b.part - 1
    ))
-- name: strand_head
SELECT n, leaf, tag FROM forum.head WHERE log = %(log)s AND strand = %(strand)s
-- name: set_strand_head
INSERT INTO forum.head (log, strand, n, leaf, tag)
VALUES (%(log)s, %(strand)s, %(n)s, %(leaf)s, %(tag)s)
ON CONFLICT (log, strand) DO UPDATE SET n = excluded.n, leaf = excluded.leaf, tag = excluded.tag
-- name: add_lost_mark
INSERT INTO forum.head (log, strand, n, leaf, tag)
SELECT id, %(strand)s, %(n)s, %(leaf)s, %(tag)s FROM forum.log WHERE origin = %(origin)s
ON CONFLICT DO NOTHING
-- name: mark_ended
-- 1: it takes no entry, and is signed to its end.  0: it has ended.
INSERT INTO forum.head (log, strand, n, leaf)
SELECT id, 'ended', %(n)s, decode(repeat('00', 32), 'hex') FROM forum.log
WHERE origin = %(origin)s
ON CONFLICT (log, strand) DO UPDATE SET n = excluded.n
-- name: reopen_log
DELETE FROM forum.head
WHERE log = (SELECT id FROM forum.log WHERE origin = %(origin)s) AND strand = 'ended'
-- name: quarantine
SELECT id, run, strand, n, bytes, tag, at FROM forum.quarantine WHERE log = %(log)s ORDER BY id
-- name: quarantined
SELECT count(*) FROM forum.quarantine WHERE log = %(log)s
-- name: add_quarantine
INSERT INTO forum.quarantine (log, run, strand, n, bytes, tag, at)
SELECT e.log, coalesce(s.run, ''), coalesce(s.name, ''), e.n, e.bytes, e.tag,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM forum.entry e LEFT JOIN forum.strand s ON s.id = e.strand
WHERE e.log = %(log)s AND e.strand = %(strand)s AND e.n = %(n)s RETURNING id
-- name: add_quarantine_bodies
INSERT INTO forum.quarantine_body (quarantine, name, part, salt, data)
SELECT %(quarantine)s, name, part, salt, data FROM forum.body
WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s
-- name: remove_bodies
DELETE FROM forum.body WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s
-- name: remove_entry
DELETE FROM forum.entry WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s
-- name: pending_row
SELECT strands, ns FROM forum.pending WHERE log = %(log)s AND seq = %(seq)s FOR UPDATE
-- name: remove_commit
DELETE FROM forum.pending WHERE log = %(log)s AND seq = %(seq)s
-- name: set_pending
UPDATE forum.pending SET strands = %(strands)b, ns = %(ns)b WHERE log = %(log)s AND seq = %(seq)s
-- name: discard_quarantine_bodies
DELETE FROM forum.quarantine_body WHERE quarantine = (
    SELECT id FROM forum.quarantine WHERE log = %(log)s AND id = %(id)s
)
-- name: discard_quarantine
DELETE FROM forum.quarantine WHERE log = %(log)s AND id = %(id)s
-- name: swap
UPDATE forum.log SET size = %s, root = %s WHERE id = %s AND size = %s AND root = %s
    AND NOT EXISTS (SELECT FROM forum.move WHERE move.log = log.id AND state <> 'copying')
    AND NOT EXISTS (
        SELECT FROM forum.head WHERE head.log = log.id AND strand = 'ended' AND n = 0
    )
-- name: has_moves
SELECT to_regclass('forum.move') IS NOT NULL
-- name: move
SELECT state, place, id FROM forum.move WHERE log = %(log)s
-- name: add_left
INSERT INTO forum.move (log, state, id, place)
SELECT log.id, 'left', %(id)s, %(place)s FROM forum.log WHERE origin = %(origin)s
ON CONFLICT DO NOTHING
-- name: end_lost_move
-- A mover holds the lock in the session in which it decides, so without the lock it has not decided
-- and cannot any more.
WITH free AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('forum.move'), %(log)s) AS is_free
)
DELETE FROM forum.move USING free
WHERE is_free AND log = %(log)s AND state IN ('copying', 'paused')
-- name: arrive
DELETE FROM forum.move WHERE log = %(log)s AND state = 'arriving' AND id = %(id)s
-- name: remove_pending
DELETE FROM forum.pending WHERE log = %s AND seq = ANY(%s) RETURNING seq, strands, ns
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
-- name: accounts
SELECT run, usd_cap, tokens_cap, calls_cap, usd, tokens, calls
FROM forum.account WHERE log = %(log)s AND run = ANY(%(runs)s)
-- name: account_runs
SELECT run FROM forum.account WHERE log = %(log)s AND run > %(run)s ORDER BY run LIMIT %(limit)s
-- name: periods
SELECT to_char(t, 'YYYY-MM-DD'), to_char(t, 'YYYY-MM'),
    (extract(epoch FROM date_trunc('day', t) + interval '1 day') * 1000000)::bigint,
    (extract(epoch FROM date_trunc('month', t) + interval '1 month') * 1000000)::bigint,
    (extract(epoch FROM t) * 1000000)::bigint, to_char(t, '"minute "YYYY-MM-DD HH24:MI'),
    (extract(epoch FROM date_trunc('minute', t) + interval '1 minute') * 1000000)::bigint,
    to_char(t, '"hour "YYYY-MM-DD HH24'),
    (extract(epoch FROM date_trunc('hour', t) + interval '1 hour') * 1000000)::bigint,
    to_char(date_trunc('week', t), '"week "YYYY-MM-DD'),
    (extract(epoch FROM date_trunc('week', t) + interval '7 days') * 1000000)::bigint
FROM (SELECT statement_timestamp() AT TIME ZONE 'UTC') AS clock (t)
-- name: drop_past_slices
DELETE FROM forum.budget
WHERE log = %(log)s AND period >= %(first)s AND period < %(period)s AND scope = %(scope)s
-- name: add_slice
INSERT INTO forum.budget (log, period, scope, owner, until)
VALUES (%(log)s, %(period)s, %(scope)s, %(owner)s, %(until)s) ON CONFLICT DO NOTHING
-- name: lock_budget
-- The row lock is held until the transaction ends, so that slices are allocated one at a time.
UPDATE forum.budget SET until = until
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s AND owner = ''
-- name: has_entries_from
SELECT 1 FROM forum.strand JOIN forum.entry ON entry.log = strand.log AND entry.strand = strand.id
WHERE strand.log = %(log)s AND strand.run = %(run)s AND strand.name = %(name)s AND entry.n >= %(n)s
LIMIT 1
-- name: held_slices
-- scan: reads the slices of all periods, when an operator sets a cap or freezes spending
SELECT DISTINCT period, scope FROM forum.budget
WHERE log = %(log)s AND (usd_held > usd OR tokens_held > tokens OR runs_held > runs)
-- name: slices
SELECT owner, usd_held, tokens_held, runs_held, usd, tokens, runs FROM forum.budget
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s
-- name: take_back
-- Waits for concurrent charges of these rows; the columns then include their amounts.
UPDATE forum.budget SET usd_held = least(usd_held, usd), tokens_held = least(tokens_held, tokens),
    runs_held = least(runs_held, runs)
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s AND owner <> %(owner)s
    AND (usd_held > usd OR tokens_held > tokens OR runs_held > runs)
-- name: hold_slice
UPDATE forum.budget
SET usd_held = %(usd)s, tokens_held = %(tokens)s, runs_held = %(runs)s
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s AND owner = %(owner)s
-- name: charge_slice
UPDATE forum.budget
SET usd = usd + %(usd)s, tokens = tokens + %(tokens)s, runs = runs + %(runs)s
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s AND owner = %(owner)s
    AND (NOT %(guarded)s OR (
        until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        AND (%(usd)s <= 0 OR usd + %(usd)s <= usd_held)
        AND (%(tokens)s <= 0 OR tokens + %(tokens)s <= tokens_held)
        AND (%(runs)s <= 0 OR runs + %(runs)s <= runs_held)
    ))
-- name: charge_slices
-- Rows are locked in one order: two commits that charge the same slices cannot deadlock.
WITH more AS (
    SELECT * FROM unnest(
        %(scopes)b::text[], %(periods)b::text[], %(owners)b::text[], %(guarded)b::boolean[],
        %(usd)b::bigint[], %(tokens)b::bigint[], %(runs)b::bigint[],
        %(asked_usd)b::bigint[], %(asked_tokens)b::bigint[], %(asked_runs)b::bigint[]
    ) AS u (
        scope, period, owner, guarded, usd, tokens, runs, asked_usd, asked_tokens, asked_runs
    )
), slice AS (
    SELECT budget.scope, budget.period, budget.owner FROM forum.budget
    JOIN more USING (scope, period, owner)
    WHERE budget.log = %(log)s ORDER BY scope, period, owner FOR UPDATE OF budget
)
UPDATE forum.budget AS b
SET usd = b.usd + more.usd, tokens = b.tokens + more.tokens, runs = b.runs + more.runs
FROM slice JOIN more USING (scope, period, owner)
WHERE b.log = %(log)s AND b.period = slice.period AND b.scope = slice.scope
    AND b.owner = slice.owner AND (NOT more.guarded OR (
        b.until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        AND (more.asked_usd <= 0 OR b.usd + more.usd <= b.usd_held)
        AND (more.asked_tokens <= 0 OR b.tokens + more.tokens <= b.tokens_held)
        AND (more.asked_runs <= 0 OR b.runs + more.runs <= b.runs_held)
    ))
RETURNING b.scope, b.period, b.owner
-- name: remove_slice
DELETE FROM forum.budget
WHERE log = %(log)s AND period = %(period)s AND scope = %(scope)s AND owner = %(owner)s
RETURNING usd, tokens, runs
-- name: budget_use
SELECT scope, period, max(until), sum(usd)::bigint, sum(tokens)::bigint, sum(runs)::bigint
FROM forum.budget WHERE log = %(log)s AND period = ANY(%(periods)s)
GROUP BY scope, period ORDER BY period, scope
-- name: overruns
SELECT scope, runs::bigint FROM forum.budget WHERE log = %(log)s AND period = 'overrun'
-- name: ask_once
INSERT INTO forum.once (log, name, run, digest, tag)
VALUES (%(log)s, %(name)s, %(run)s, %(digest)s, %(tag)s) ON CONFLICT DO NOTHING
-- name: forget_asked
UPDATE forum.once SET digest = '', tag = NULL WHERE log = %(log)s AND run = %(run)s
-- name: asked
SELECT run, digest, tag FROM forum.once WHERE log = %(log)s AND name = %(name)s
-- name: tag_idempotency
UPDATE forum.once SET tag = %(tag)s WHERE log = %(log)s AND name = %(name)s
-- name: idempotency_rows
SELECT name, run, digest, tag FROM forum.once
WHERE log = %(log)s AND name > %(name)s ORDER BY name LIMIT %(limit)s
-- name: interrupted_runs
SELECT run FROM forum.interrupted
WHERE log = %(log)s AND run > %(run)s ORDER BY run LIMIT %(limit)s

-- name: list_interrupted
WITH new AS (
    INSERT INTO forum.interrupted (log, run) VALUES (%(log)s, %(run)s) ON CONFLICT DO NOTHING
)
SELECT pg_notify('forum_due', %(log)s::text)

-- name: unlist_interrupted
DELETE FROM forum.interrupted WHERE log = %(log)s AND run = %(run)s

-- name: unarchived_runs
-- scan: the archive command looks at every run that is stored here
SELECT run FROM forum.strand s
WHERE log = %(log)s AND run > %(run)s AND name = 'main' AND EXISTS (
    SELECT FROM forum.entry e
    WHERE e.log = s.log AND e.strand = s.id AND e.n = 0 AND length(e.bytes) > 0
)
ORDER BY run LIMIT %(limit)s

-- name: empty_entries
-- The row stays, so that its position stays taken.
UPDATE forum.entry SET bytes = ''::bytea, tag = ''::bytea
WHERE log = %(log)s AND strand = %(strand)s AND n < %(length)s AND length(bytes) > 0

-- name: remove_archived_bodies
DELETE FROM forum.body WHERE log = %(log)s AND strand = %(strand)s AND n < %(length)s

-- name: add_ended
INSERT INTO forum.ended (log, run, parent, at)
SELECT %(log)s, run, parent, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM unnest(%(runs)b::text[], %(parents)b::text[]) AS u (run, parent) ON CONFLICT DO NOTHING

-- name: due_ended
-- SKIP LOCKED: of two leaders at once, each deletes rows that the other does not.
SELECT run FROM forum.ended WHERE log = %(log)s AND at <= %(before)s
ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: postpone_ended
-- The account of a run says what its parent has to pay, so it stays as long as the parent is open.
-- An open run has an account, and one that has ended is listed until its account is deleted.
UPDATE forum.ended AS child
SET at = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
WHERE log = %(log)s AND run = ANY(%(runs)s::text[])
    AND EXISTS (SELECT FROM forum.account WHERE log = child.log AND run = child.parent)
    AND NOT EXISTS (
        SELECT FROM forum.ended AS parent WHERE parent.log = child.log AND parent.run = child.parent
    )
RETURNING run

-- name: remove_accounts
DELETE FROM forum.account WHERE log = %(log)s AND run = ANY(%(runs)s::text[])

-- name: remove_timers
DELETE FROM forum.alarm WHERE log = %(log)s AND run = ANY(%(runs)s::text[])

-- name: remove_idempotency
DELETE FROM forum.once WHERE log = %(log)s AND run = ANY(%(runs)s::text[])

-- name: remove_interrupted
DELETE FROM forum.interrupted WHERE log = %(log)s AND run = ANY(%(runs)s::text[])

-- name: remove_sums
-- The sums of a run are named by it.
DELETE FROM forum.budget WHERE log = %(log)s AND period = 'run'
    AND substring(scope from '/([^/]*)$') = ANY(%(runs)s::text[])

-- name: remove_ended
DELETE FROM forum.ended WHERE log = %(log)s AND run = ANY(%(runs)s::text[])

-- name: set_alarms
-- Workers that wait are told with the commit if a timer is due at once.
WITH new AS (
    INSERT INTO forum.alarm (log, run, strand, at)
    SELECT %(log)s, run, strand, at
    FROM unnest(%(runs)b::text[], %(strands)b::text[], %(ats)b::bigint[]) AS u (run, strand, at)
    ON CONFLICT (log, run, strand) DO UPDATE SET at = excluded.at
)
SELECT pg_notify('forum_due', %(log)s::text) WHERE EXISTS (
    SELECT FROM unnest(%(ats)b::bigint[]) AS at
    WHERE at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
)
-- name: add_alarms
WITH new AS (
    INSERT INTO forum.alarm (log, run, strand, at)
    SELECT %(log)s, run, strand, at
    FROM unnest(%(runs)b::text[], %(strands)b::text[], %(ats)b::bigint[]) AS u (run, strand, at)
    ON CONFLICT (log, run, strand) DO NOTHING RETURNING run
)
SELECT pg_notify('forum_due', %(log)s::text) WHERE EXISTS (SELECT FROM new)
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
-- name: open_runs
-- The timer of a run is set from its acceptance to its end; that of a reported run has another name.
SELECT count(*) FROM (
    SELECT FROM forum.alarm WHERE log = %(log)s AND strand = %(strand)s LIMIT %(limit)s
) AS run
-- name: gates_waiting
SELECT count(*) FROM (
    SELECT FROM forum.alarm
    WHERE log = %(log)s AND strand >= 'gate/' AND strand < 'gate0' LIMIT %(limit)s
) AS gate
-- name: due_alarms
-- The longest due timers come first, which is the order of the index.
SELECT run, strand, at FROM forum.alarm
WHERE log = %(log)s AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
    AND (at, run, strand) > (%(at)s, %(run)s, %(strand)s)
ORDER BY at, run, strand LIMIT %(limit)s
-- name: claim_due
-- SKIP LOCKED: two workers that poll at the same moment claim different timers.  The timer of a run
-- that a live worker has claimed is claimed only by that worker: no other can signal the driver.
-- A time below `anew` means that the timer was set to be due at once.  A timer that was postponed
-- before and becomes due again without being set is postponed for twice as long.
-- The planner estimates an unknown limit as a tenth of the table, and would read the whole table to
-- join the claimed rows; the second, constant limit prevents that.
WITH due AS (
    SELECT timer.ctid AS place, run, strand, at, CASE
        WHEN run = ANY(%(own)b::text[]) THEN %(longest)s::bigint
        WHEN pause IS NULL OR at < %(anew)s::bigint THEN %(shortest)s::bigint
        ELSE least(2 * pause, %(longest)s::bigint)
    END AS pause
    FROM forum.alarm AS timer
    WHERE log = %(log)s AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        AND NOT EXISTS (
            SELECT FROM forum.claim AS held
            WHERE held.log = timer.log AND held.run = timer.run AND held.worker <> %(worker)s
                AND EXISTS (
                    SELECT FROM forum.lease WHERE log = held.log AND worker = held.worker
                        AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
                )
        )
    ORDER BY at LIMIT %(limit)s FOR UPDATE OF timer SKIP LOCKED
)
UPDATE forum.alarm AS old SET
    at = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + due.pause,
    pause = due.pause
FROM (SELECT * FROM due LIMIT 50) AS due WHERE old.ctid = due.place
RETURNING due.run, due.strand, due.at

-- name: claim_runs
-- `mine` are the due timers of runs that this worker has claimed; `free` are those of runs that no
-- live worker has claimed, longest due first.  SKIP LOCKED: two workers that claim at the same
-- moment get different timers.  A run may have two due timers, and two workers may each get one of
-- them: the key of the table decides which of them gets the run.  The claims are inserted in the
-- order of their runs, so that these two wait for each other in one direction only.
-- A worker without a lease claims nothing: nobody would take over what it has claimed.  The lock on
-- its lease makes a takeover of this worker wait, which then finds the new claims, too.
-- The array makes the planner look the claimed rows up, instead of reading the whole table.
WITH mine AS (
    SELECT timer.* FROM forum.claim AS held CROSS JOIN LATERAL (
        SELECT ctid AS place, run, strand, at FROM forum.alarm
        WHERE log = held.log AND run = held.run
            AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        FOR UPDATE SKIP LOCKED
    ) AS timer
    WHERE held.log = %(log)s AND held.worker = %(worker)s LIMIT %(own_limit)s
), own_lease AS MATERIALIZED (
    SELECT worker FROM forum.lease
    WHERE log = %(log)s AND worker = %(worker)s
        AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
    FOR KEY SHARE
), free AS (
    SELECT timer.ctid AS place, run, strand, at, CASE
        WHEN pause IS NULL OR at < %(anew)s::bigint THEN %(shortest)s::bigint
        ELSE least(2 * pause, %(longest)s::bigint)
    END AS pause
    FROM forum.alarm AS timer
    WHERE log = %(log)s AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        AND EXISTS (SELECT FROM own_lease)
        AND NOT EXISTS (
            SELECT FROM forum.claim AS held
            WHERE held.log = timer.log AND held.run = timer.run AND (
                held.worker = %(worker)s OR EXISTS (
                    SELECT FROM forum.lease WHERE log = held.log AND worker = held.worker
                        AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
                )
            )
        )
    ORDER BY at LIMIT %(limit)s FOR UPDATE OF timer SKIP LOCKED
), taken AS (
    INSERT INTO forum.claim AS held (log, run, worker)
    SELECT DISTINCT %(log)s::integer, run, %(worker)s FROM free ORDER BY run
    ON CONFLICT (log, run) DO UPDATE SET worker = excluded.worker
    WHERE NOT EXISTS (
        SELECT FROM forum.lease WHERE log = held.log AND worker = held.worker
            AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
    )
    RETURNING run
), due AS (
    SELECT place, run, strand, at, %(longest)s::bigint AS pause FROM mine
    UNION ALL SELECT * FROM free WHERE run IN (SELECT run FROM taken)
)
UPDATE forum.alarm AS old SET
    at = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + due.pause,
    pause = due.pause
FROM due WHERE old.ctid = ANY(ARRAY(SELECT place FROM due)) AND old.ctid = due.place
RETURNING due.run, due.strand, due.at

-- name: release_runs
DELETE FROM forum.claim
WHERE log = %(log)s AND run = ANY(%(runs)s::text[]) AND worker = %(worker)s

-- name: drop_lost_lease
DELETE FROM forum.lease AS held
WHERE log = %(log)s AND worker = %(worker)s
    AND (until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint OR (
        until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(early)s
        AND EXISTS (SELECT FROM forum.claim WHERE log = held.log AND worker = held.worker)
        AND NOT EXISTS (
            SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
                AND classid = (hashtext('forum.worker')::bigint & 4294967295)::oid
                AND objid = (hashtext(held.worker)::bigint & 4294967295)::oid
        )
    ))

-- name: hold_worker_lock
-- A lock of the session: free as soon as the process or its connection is gone.
SELECT pg_advisory_lock_shared(hashtext('forum.worker'), hashtext(%(worker)s))

-- name: beat
-- All parts see the leases as they were before this statement.  A session lock is looked up only
-- if a beat is late, and only for workers that have claimed runs: no others hold such a lock.
WITH lost AS MATERIALIZED (
    SELECT worker FROM forum.lease AS held
    WHERE log = %(log)s AND (
        until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint OR (
            until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(early)s
            AND EXISTS (SELECT FROM forum.claim WHERE log = held.log AND worker = held.worker)
            AND NOT EXISTS (
                SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
                    AND classid = (hashtext('forum.worker')::bigint & 4294967295)::oid
                    AND objid = (hashtext(held.worker)::bigint & 4294967295)::oid
            )
        )
    )
), renewed AS (
    INSERT INTO forum.lease (log, worker, until) VALUES (
        %(log)s, %(worker)s,
        (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(micros)s
    )
    ON CONFLICT (log, worker) DO UPDATE SET until = excluded.until
), cut AS (
    -- No worker takes so long a lease: somebody has edited the table, and its runs would wait.
    UPDATE forum.lease AS held
    SET until = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(most)s
    FROM (
        SELECT worker FROM forum.lease WHERE log = %(log)s AND worker <> %(worker)s
            AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(most)s
        FOR UPDATE SKIP LOCKED
    ) AS long
    WHERE held.log = %(log)s AND held.worker = long.worker
)
SELECT worker FROM lost

-- name: log_ids
SELECT origin, found.id FROM unnest(%(origins)s::text[]) AS named (origin)
CROSS JOIN LATERAL (SELECT id FROM forum.log WHERE log.origin = named.origin LIMIT 1) AS found

-- name: logs_with_work
-- Which of many logs have something to do: timers are due, or a worker is lost (as in `beat`); and,
-- for the process that signs, entries without an index, a tree without a checkpoint, or rows of
-- ended runs to delete.  With order and limit the planner looks into an index for each log.
SELECT served.log, timer.due, lost.is_lost,
    pending.is_there OR ended.is_there OR tree.size > coalesce(signed.size, 0),
    EXISTS (SELECT FROM forum.move WHERE move.log = served.log AND state = 'left')
FROM unnest(%(logs)s::integer[], %(delays)s::bigint[]) AS served (log, delay)
CROSS JOIN LATERAL (SELECT size FROM forum.log WHERE id = served.log LIMIT 1) AS tree
LEFT JOIN LATERAL (
    SELECT size FROM forum.checkpoint WHERE checkpoint.log = served.log ORDER BY size DESC LIMIT 1
) AS signed ON true
CROSS JOIN LATERAL (SELECT count(*) AS due FROM (
    SELECT FROM forum.alarm WHERE alarm.log = served.log
        AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
    ORDER BY at LIMIT %(most)s
) AS due) AS timer
CROSS JOIN LATERAL (SELECT count(*) > 0 AS is_there FROM (
    SELECT FROM forum.pending WHERE pending.log = served.log ORDER BY seq LIMIT 1
) AS oldest) AS pending
CROSS JOIN LATERAL (SELECT count(*) > 0 AS is_there FROM (
    SELECT FROM forum.ended WHERE ended.log = served.log
        AND at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint - served.delay
    ORDER BY at LIMIT 1
) AS oldest) AS ended
CROSS JOIN LATERAL (SELECT count(*) > 0 AS is_lost FROM (
    SELECT FROM forum.lease AS held WHERE held.log = served.log AND (
        until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint OR (
            until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + %(early)s
            AND EXISTS (SELECT FROM forum.claim WHERE log = held.log AND worker = held.worker)
            AND NOT EXISTS (
                SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
                    AND classid = (hashtext('forum.worker')::bigint & 4294967295)::oid
                    AND objid = (hashtext(held.worker)::bigint & 4294967295)::oid
            )
        )
    ) LIMIT 1
) AS late) AS lost

-- name: logs_with_retention
SELECT served.log FROM unnest(%(logs)s::integer[]) AS served (log)
CROSS JOIN LATERAL (
    SELECT FROM forum.strand WHERE strand.log = served.log
        AND run = %(run)s AND name = %(strand)s LIMIT 1
) AS rules

-- name: make_claimed_due
-- SKIP LOCKED: a timer that is being set or claimed just now needs no help, and waiting for it
-- could end in a deadlock with a worker that waits for the claim.
WITH due AS (
    UPDATE forum.alarm AS old SET at = least(at, %(at)s)
    FROM (
        SELECT timer.place FROM forum.claim AS held CROSS JOIN LATERAL (
            SELECT ctid AS place FROM forum.alarm
            WHERE log = held.log AND run = held.run AND strand = %(strand)s
            FOR UPDATE SKIP LOCKED
        ) AS timer
        WHERE held.log = %(log)s AND held.worker = %(worker)s LIMIT 100000
    ) AS timer WHERE old.ctid = timer.place
)
SELECT pg_notify('forum_due', %(log)s::text)
WHERE EXISTS (SELECT FROM forum.claim WHERE log = %(log)s AND worker = %(worker)s)

-- name: drop_claims
DELETE FROM forum.claim WHERE log = %(log)s AND worker = %(worker)s

-- name: claim_run
-- As in `claim_runs`: without a lease nothing is claimed, and its lock makes a takeover wait.
INSERT INTO forum.claim AS held (log, run, worker)
SELECT log, %(run)s, worker FROM forum.lease
WHERE log = %(log)s AND worker = %(worker)s
    AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FOR KEY SHARE
ON CONFLICT (log, run) DO UPDATE SET worker = excluded.worker
WHERE held.worker = excluded.worker OR NOT EXISTS (
    SELECT FROM forum.lease WHERE log = held.log AND worker = held.worker
        AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
)

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
-- name: present_workers
SELECT worker FROM forum.lease
WHERE log = %(log)s AND until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
-- name: lost_workers
SELECT worker FROM forum.lease
WHERE log = %(log)s AND until <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint

-- name: partitions
-- One row with the last strand at least.  The default partition has no bounds.
SELECT last_value, parent.relname, pg_get_expr(part.relpartbound, part.oid)
FROM forum.strand_id_seq LEFT JOIN (
    pg_inherits JOIN pg_class AS part ON part.oid = inhrelid
    JOIN pg_class AS parent ON parent.oid = inhparent AND parent.relkind = 'p'
        AND parent.relnamespace = 'forum'::regnamespace
) ON pg_get_expr(part.relpartbound, part.oid) <> 'DEFAULT'

-- name: check_constraints
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = to_regclass('forum.' || %(table)s::text) AND contype = 'c'

-- name: table_grants
-- The role with the number 0 is PUBLIC.
SELECT privilege_type, CASE WHEN grantee <> 0 THEN pg_get_userbyid(grantee) END
FROM pg_class CROSS JOIN aclexplode(relacl)
WHERE oid = to_regclass('forum.' || %(table)s::text)

-- name: other_sessions
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'

-- name: live_workers
SELECT count(*) FROM forum.lease
WHERE until > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
-- name: catalogue
-- What the schema consists of, as pairs of an object and one of its properties.  Names of functions
-- and operators resolve in pg_catalog alone (see safe_path); indexes and constraints have no names
-- here, because those of partitions are made up by the server.
WITH space AS (
    SELECT oid, nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'forum'
), relations AS (
    SELECT c.*, space.nspowner,
        CASE WHEN parent.oid IS NULL THEN 'relation ' || c.relname
        ELSE 'partition of ' || parent.relname END AS object,
        parent.oid AS parent
    FROM pg_catalog.pg_class AS c JOIN space ON c.relnamespace = space.oid
    LEFT JOIN pg_catalog.pg_inherits ON inhrelid = c.oid AND c.relispartition
    LEFT JOIN pg_catalog.pg_class AS parent
        ON parent.oid = inhparent AND parent.relnamespace = space.oid
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S')
), builtin AS (
    SELECT DISTINCT proname FROM pg_catalog.pg_proc WHERE oid < 16384
)
SELECT 'schema forum', 'is there' FROM space
UNION
SELECT object, 'kind ' || relkind::text || ', persistence ' || relpersistence::text
    || ', method ' || coalesce((SELECT amname FROM pg_catalog.pg_am WHERE oid = relam), 'none')
    || CASE WHEN relrowsecurity THEN ', row security' ELSE '' END
    || CASE WHEN relforcerowsecurity THEN ', forced row security' ELSE '' END
FROM relations
UNION
SELECT object, 'owned by ' || pg_catalog.pg_get_userbyid(relowner)
    || ', who is not the owner of the schema'
FROM relations JOIN pg_catalog.pg_roles AS owner ON owner.oid = relowner
WHERE relowner <> nspowner AND NOT owner.rolsuper
UNION
SELECT object, 'sequence of ' || pg_catalog.format_type(seqtypid, NULL) || ' from '
    || seqstart::text || ' by ' || seqincrement::text || ' to ' || seqmax::text || ', cache '
    || seqcache::text || CASE WHEN seqcycle THEN ', cycles' ELSE '' END
FROM relations JOIN pg_catalog.pg_sequence ON seqrelid = relations.oid
UNION
SELECT object, 'column ' || attname || ' ' || pg_catalog.format_type(atttypid, atttypmod)
    || CASE WHEN attnotnull THEN ' not null' ELSE '' END
    || coalesce(' collate ' || (
        SELECT nspname || '.' || collname FROM pg_catalog.pg_collation AS rules
        JOIN pg_catalog.pg_namespace AS home ON home.oid = collnamespace
        WHERE rules.oid = attcollation
    ), '')
    || CASE WHEN attidentity = '' THEN '' ELSE ' identity ' || attidentity::text END
    || CASE WHEN attgenerated = '' THEN ' default ' ELSE ' generated ' END
    || coalesce(pg_catalog.pg_get_expr(adbin, adrelid), 'none')
FROM relations JOIN pg_catalog.pg_attribute ON attrelid = relations.oid
LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped AND relkind <> 'S'
UNION
-- Whether a constraint was checked for old rows differs between partitions of one history.
SELECT object, 'constraint '
    || replace(pg_catalog.pg_get_constraintdef(con.oid), ' NOT VALID', '')
FROM relations JOIN pg_catalog.pg_constraint AS con ON conrelid = relations.oid
WHERE contype IN ('c', 'f', 'p', 'u', 'x')
UNION
SELECT object, 'index'
    || CASE WHEN indisunique THEN ' unique' ELSE '' END
    || CASE WHEN indisvalid AND indisready AND indislive THEN '' ELSE ' not valid' END
    || CASE WHEN foreign_class THEN ' with operators of others' ELSE '' END
    || regexp_replace(
        substring(pg_catalog.pg_get_indexdef(indexrelid) FROM ' USING .*'), ' WITH \([^)]*\)', ''
    )
FROM relations JOIN pg_catalog.pg_index ON indrelid = relations.oid
CROSS JOIN LATERAL (
    SELECT bool_or(class >= 16384) AS foreign_class FROM unnest(indclass::oid[]) AS class
) AS classes
UNION
SELECT object, 'rule ' || pg_catalog.pg_get_ruledef(rule.oid)
FROM relations JOIN pg_catalog.pg_rewrite AS rule ON ev_class = relations.oid
UNION
SELECT object, CASE WHEN tgisinternal THEN 'a foreign key is switched off'
    ELSE 'trigger ' || pg_catalog.pg_get_triggerdef(trigger.oid) || ', enabled ' || tgenabled::text END
FROM relations JOIN pg_catalog.pg_trigger AS trigger ON tgrelid = relations.oid
WHERE NOT tgisinternal OR tgenabled <> 'O'
UNION
SELECT object, 'policy ' || polname || ' for ' || polcmd::text
    || CASE WHEN polpermissive THEN '' ELSE ' restrictive' END || ' to '
    || CASE WHEN polroles = '{0}' THEN 'public' ELSE polroles::text END
    || coalesce(' using ' || pg_catalog.pg_get_expr(polqual, polrelid), '')
    || coalesce(' with check ' || pg_catalog.pg_get_expr(polwithcheck, polrelid), '')
FROM relations JOIN pg_catalog.pg_policy ON polrelid = relations.oid
UNION
SELECT object, 'partitioned by ' || pg_catalog.pg_get_partkeydef(relations.oid)
FROM relations WHERE relkind = 'p'
UNION
SELECT object, 'rows of ' || inhrelid::pg_catalog.regclass::text || ' are shown in it'
FROM relations JOIN pg_catalog.pg_inherits ON inhparent = relations.oid
WHERE inhrelid NOT IN (SELECT oid FROM relations WHERE parent IS NOT NULL)
UNION
SELECT object, 'its rows are shown in ' || inhparent::pg_catalog.regclass::text
FROM relations JOIN pg_catalog.pg_inherits ON inhrelid = relations.oid WHERE parent IS NULL
UNION
SELECT 'function forum.' || proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid)
    || ')', 'body ' || md5(prosrc)
FROM pg_catalog.pg_proc AS p JOIN space ON pronamespace = space.oid
UNION
SELECT 'type forum.' || typname, 'kind ' || typtype::text
FROM pg_catalog.pg_type JOIN space ON typnamespace = space.oid
WHERE typtype NOT IN ('b', 'c', 'p')
UNION
-- Objects of others that statements of Forum would find in pg_catalog.
SELECT 'function pg_catalog.' || proname || '('
    || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')', 'is there'
FROM pg_catalog.pg_proc AS p JOIN builtin USING (proname)
WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.oid >= 16384
UNION
SELECT 'operator ' || o.oid::pg_catalog.regoperator::text, 'is there'
FROM pg_catalog.pg_operator AS o
WHERE oprnamespace = 'pg_catalog'::pg_catalog.regnamespace AND o.oid >= 16384
UNION
SELECT 'cast from ' || pg_catalog.format_type(castsource, NULL) || ' to '
    || pg_catalog.format_type(casttarget, NULL), 'is there'
FROM pg_catalog.pg_cast WHERE oid >= 16384 AND castsource < 16384 AND casttarget < 16384
UNION
-- Such a trigger runs at the beginning of each session.
SELECT 'event trigger ' || evtname, 'is there' FROM pg_catalog.pg_event_trigger
WHERE evtevent = 'login' AND evtenabled <> 'D'
ORDER BY 1, 2
-- name: safe_path
-- Otherwise an owner of the database could have functions, operators and temporary tables of their
-- own found before those of the server: ALTER ROLE ... SET search_path.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
-- name: limit_session
-- The value of the last setting, the mark, is read before the first one is set.
WITH before AS MATERIALIZED (SELECT current_setting('forum.session', true) AS mark),
applied AS MATERIALIZED (
    SELECT count(set_config(name, value, false))
    FROM before, unnest(%(names)s::text[], %(values)s::text[]) AS wanted (name, value)
)
SELECT mark, pg_backend_pid(),
    extract(epoch FROM current_setting('statement_timeout')::interval)::float8
FROM before, applied
-- name: log_state
SELECT coalesce((SELECT size FROM forum.log WHERE id = %(log)s), 0),
    (SELECT seq FROM forum.pending WHERE log = %(log)s ORDER BY seq LIMIT 1),
    coalesce((
        SELECT size FROM forum.checkpoint WHERE log = %(log)s ORDER BY size DESC LIMIT 1
    ), 0),
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    pg_is_in_recovery(), current_setting('transaction_read_only')::boolean
-- name: sequencer_session
SELECT pid, coalesce(host(client_addr), 'this machine') FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = (hashtext('forum.sequencer')::bigint & 4294967295)::oid
    AND objid = %(log)s::bigint::oid
-- name: spill_early
-- More than this is written to temporary files, in the tablespace of the database.
SELECT set_config('work_mem', '64kB', false), set_config('temp_tablespaces', '', false)
-- name: try_writing
WITH spilled AS MATERIALIZED (
    SELECT repeat('x', 1000) || n AS data FROM generate_series(1, 128) AS n
)
SELECT count(data), pg_logical_emit_message(true, 'forum.probe', '') FROM spilled
-- name: has_process
SELECT FROM pg_stat_activity WHERE pid = %s
-- name: session_mark
SELECT pg_catalog.current_setting('forum.session', true)
-- name: unseparated
-- Tables, but no partitions: rights are asked for where a statement names a table.
SELECT relname::text FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid
WHERE relnamespace = to_regnamespace('forum') AND relkind IN ('r', 'p') AND NOT relispartition
    AND attname = 'log' AND NOT attisdropped
    AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'tenant')
ORDER BY relname
-- name: tenant_roles
SELECT role::text FROM forum.tenant JOIN pg_roles ON rolname = role ORDER BY log
-- name: tenant
SELECT log.id, tenant.role::text, current_database()::text,
    EXISTS (
        SELECT FROM pg_roles WHERE rolname = left('forum_' || log.id || '_' || current_database(), 63)
    )
FROM forum.log LEFT JOIN forum.tenant ON tenant.log = log.id WHERE origin = %(origin)s
-- name: tenant_rights
-- A log and its name, and what is true of the whole database, only the operator makes or removes.
-- Numbers are the server's to give: a tenant who took the next one would stop all others.
SELECT relname::text, CASE WHEN relname IN ('migration', 'addition', 'tenant', 'move') THEN 'SELECT'
    WHEN relname = 'log' THEN 'SELECT, UPDATE (size, root)'
    ELSE format('SELECT, DELETE, INSERT (%1$s), UPDATE (%1$s)', columns) END
FROM pg_class CROSS JOIN LATERAL (
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns FROM pg_attribute
    WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attidentity = ''
) AS given
WHERE relnamespace = to_regnamespace('forum') AND relkind IN ('r', 'p') AND NOT relispartition
ORDER BY relname
-- name: lock_upgrade
SELECT pg_try_advisory_lock(hashtext('forum.upgrade'))
-- name: set_timeout
SELECT set_config(%(name)s, %(value)s, %(local)s)
-- name: index_state
SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('forum.' || %(name)s)
-- name: upgrade_lock_holder
SELECT pid, coalesce(application_name, ''), coalesce(usename, '')::text,
    coalesce(to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), '')
FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    -- An advisory lock with one key shows it as two halves.
    AND classid = ((hashtext('forum.upgrade')::bigint >> 32) & 4294967295)::oid
    AND objid = (hashtext('forum.upgrade')::bigint & 4294967295)::oid AND objsubid = 1
LIMIT 1
-- name: table_holder
-- The session that has held one of some tables for longest; with `any`, the oldest transaction of
-- all, because the build of an index waits for each that is older.  A user that may not read all of
-- pg_stat_activity does not see since when.
SELECT pid, coalesce(application_name, ''), coalesce(usename, '')::text,
    coalesce(to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), '')
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND (
    (%(any)s AND backend_xmin IS NOT NULL) OR pid IN (
        SELECT pg_locks.pid FROM pg_locks
        LEFT JOIN pg_inherits ON inhrelid = relation
        JOIN pg_class ON pg_class.oid IN (relation, inhparent)
        WHERE locktype = 'relation' AND granted AND relname = ANY (%(tables)s::text[])
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relnamespace = to_regnamespace('forum')
    )
)
ORDER BY xact_start LIMIT 1
