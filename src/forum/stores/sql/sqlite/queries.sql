-- A column of SQLite can hold values of any type, so columns are cast to the type that is expected.
-- The time is computed with julianday, which has fractions of a second in every version of SQLite.

-- name: has_additions
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'addition'
-- name: make_additions
CREATE TABLE IF NOT EXISTS addition (number INTEGER PRIMARY KEY)
-- name: additions
SELECT number FROM addition
-- name: add_addition
INSERT INTO addition (number) VALUES (?)
-- name: add_log
INSERT INTO log (origin, root) VALUES (:origin, :root) ON CONFLICT DO NOTHING
-- name: log
SELECT id FROM log WHERE origin = :origin
-- name: add_strand
INSERT INTO strand (log, run, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
-- name: strand
SELECT id FROM strand WHERE log = :log AND run = :run AND name = :name
-- name: add_entries
INSERT INTO entry (strand, n, bytes, tag) VALUES
-- name: next_own_id
SELECT coalesce((SELECT id FROM entry WHERE id < 0 ORDER BY id LIMIT 1), 0) - 1
-- name: add_own_entries
INSERT INTO entry (id, strand, n, bytes, tag) VALUES
-- name: add_body
INSERT INTO body (strand, n, name, part, salt, data, list) VALUES (?, ?, ?, ?, ?, ?, ?)
-- name: reserve_lists
-- Somebody may have removed the row or set the number back: no list gets the number of another.
INSERT INTO piece_head (strand, next) VALUES (:strand, :count + coalesce(
    (SELECT max(number) + 1 FROM span_list WHERE strand = :strand), 0
))
ON CONFLICT DO UPDATE SET next = max(next + :count, excluded.next) RETURNING next, erasures
-- name: begin_release
INSERT INTO piece_head (strand, next, erasures)
SELECT :strand, coalesce((SELECT max(number) + 1 FROM span_list WHERE strand = :strand), 0), 1
WHERE EXISTS (SELECT 1 FROM piece_head WHERE strand = :strand)
    OR EXISTS (SELECT 1 FROM piece WHERE strand = :strand)
ON CONFLICT DO UPDATE SET erasures = erasures + 1
-- name: add_piece
INSERT INTO piece (strand, number, start, data) VALUES (:strand, :number, :start, :data)
-- name: add_pieces
INSERT INTO piece (strand, number, start, data) VALUES (?, ?, ?, ?)
-- name: add_list
INSERT INTO span_list (strand, number, base, kept, spans) VALUES (?, ?, ?, ?, ?)
-- name: span_lists
SELECT CAST(number AS INTEGER), CAST(base AS INTEGER), CAST(kept AS INTEGER),
    CAST(spans AS BLOB)
FROM span_list WHERE strand = :strand
-- name: recent_lists
SELECT CAST(number AS INTEGER), CAST(base AS INTEGER), CAST(kept AS INTEGER),
    CAST(spans AS BLOB)
FROM span_list WHERE strand = :strand AND number < :stop ORDER BY number DESC LIMIT :limit
-- name: list_chain
-- A list that somebody has changed may lead back to itself: the number of rows is bounded.
WITH RECURSIVE chain (number, base, kept, spans, place) AS (
    SELECT number, base, kept, spans, 1 FROM span_list
    WHERE strand = :strand AND number = :number
    UNION ALL
    SELECT l.number, l.base, l.kept, l.spans, place + 1
    FROM chain CROSS JOIN span_list AS l ON l.strand = :strand AND l.number = chain.base
    WHERE place < :limit
)
SELECT CAST(number AS INTEGER), CAST(base AS INTEGER), CAST(kept AS INTEGER),
    CAST(spans AS BLOB)
FROM chain
-- name: pieces
SELECT CAST(number AS INTEGER), CAST(start AS INTEGER), CAST(data AS BLOB) FROM piece
WHERE strand = :strand AND number IN (SELECT value FROM json_each(:numbers))
ORDER BY number, start
-- name: piece_sizes
SELECT CAST(number AS INTEGER), sum(length(data)) FROM piece
WHERE strand = :strand AND number IN (SELECT value FROM json_each(:numbers)) GROUP BY number
-- name: piece_ranges
SELECT CAST(number AS INTEGER), CAST(start AS INTEGER), length(data) FROM piece
WHERE strand = :strand ORDER BY number, start
-- name: piece_data
SELECT CAST(data AS BLOB) FROM piece
WHERE strand = :strand AND number = :number AND start = :start
-- name: remove_piece
DELETE FROM piece WHERE strand = :strand AND number = :number AND start = :start
-- name: remove_lists
DELETE FROM span_list
WHERE strand = :strand AND number IN (SELECT value FROM json_each(:numbers))
-- name: lists_in_use
SELECT DISTINCT CAST(body.list AS INTEGER) FROM strand
CROSS JOIN body ON body.strand = strand.id
WHERE strand.log = :log AND strand.run = :run AND body.list IS NOT NULL
-- name: lists_of_entry
SELECT body.name, CAST(body.list AS INTEGER) FROM entry
CROSS JOIN body ON body.strand = entry.strand AND body.n = entry.n
WHERE entry.id = :id AND body.list IS NOT NULL
-- name: set_quarantine_body
UPDATE quarantine_body SET data = :data WHERE quarantine = :quarantine AND name = :name AND part = 0
-- name: head
SELECT CAST(size AS INTEGER), CAST(root AS BLOB) FROM log WHERE id = :log
-- name: log_state
SELECT CAST(coalesce((SELECT size FROM log WHERE id = :log), 0) AS INTEGER),
    (SELECT entry FROM pending
     WHERE log = :log AND entry > (SELECT last FROM log WHERE id = :log) ORDER BY entry LIMIT 1),
    CAST(coalesce((
        SELECT size FROM checkpoint WHERE log = :log ORDER BY size DESC LIMIT 1
    ), 0) AS INTEGER),
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
-- name: tile
SELECT CAST(substr(hashes, 1, :length) AS BLOB) FROM tile
WHERE log = :log AND level = :level AND idx = :idx
-- name: entries
SELECT leaf.idx, strand.run, strand.name, entry.n,
    CAST(entry.bytes AS BLOB), CAST(entry.tag AS BLOB)
FROM leaf LEFT JOIN entry ON entry.id = leaf.entry
LEFT JOIN strand ON strand.id = entry.strand AND strand.log = leaf.log
WHERE leaf.log = :log AND leaf.idx >= :start AND leaf.idx < :stop ORDER BY leaf.idx
-- name: prefixes
SELECT prefix FROM leaf WHERE log = :log AND idx >= :start AND idx < :stop ORDER BY idx
-- name: find
-- Without this hint and without statistics, the planner would scan all indexes to get the order.
SELECT CAST(idx AS INTEGER) FROM leaf INDEXED BY leaf_prefix
WHERE log = :log AND prefix BETWEEN :low AND :high ORDER BY idx
-- name: indexes
SELECT CAST(prefix AS INTEGER), CAST(idx AS INTEGER) FROM leaf
WHERE log = :log AND prefix IN (SELECT value FROM json_each(:prefixes))
-- name: strand_entries
SELECT CAST(n AS INTEGER), CAST(bytes AS BLOB), CAST(tag AS BLOB) FROM entry
WHERE strand = :strand AND n >= :n ORDER BY n LIMIT :limit
-- name: last
SELECT CAST(n AS INTEGER), CAST(bytes AS BLOB), CAST(tag AS BLOB) FROM entry
WHERE strand = :strand ORDER BY n DESC LIMIT 1
-- name: last_entries
SELECT CAST(entry.n AS INTEGER), CAST(entry.bytes AS BLOB), CAST(entry.tag AS BLOB)
FROM json_each(:places) AS place
LEFT JOIN strand ON strand.log = :log AND strand.run = json_extract(place.value, '$[0]')
    AND strand.name = json_extract(place.value, '$[1]')
LEFT JOIN entry ON entry.strand = strand.id
    AND entry.n = (SELECT max(last.n) FROM entry AS last WHERE last.strand = strand.id)
ORDER BY place.key
-- name: strands
SELECT name FROM strand WHERE log = :log AND run = :run ORDER BY name
-- name: strand_lengths
SELECT id, name, (SELECT coalesce(max(n), -1) + 1 FROM entry WHERE entry.strand = strand.id)
FROM strand WHERE log = :log AND run = :run ORDER BY name
-- name: first_entries
SELECT strand.id, strand.name, CAST(entry.n AS INTEGER), CAST(entry.bytes AS BLOB),
    CAST(entry.tag AS BLOB)
FROM strand JOIN entry ON entry.strand = strand.id
WHERE strand.log = :log AND strand.run = :run ORDER BY strand.name, entry.n LIMIT :limit
-- name: entries_of_strands
SELECT strand, CAST(n AS INTEGER), CAST(bytes AS BLOB), CAST(tag AS BLOB) FROM entry
WHERE strand IN (SELECT value FROM json_each(:strands)) ORDER BY strand, n
-- name: entries_at
SELECT CAST(entry.bytes AS BLOB), CAST(entry.tag AS BLOB) FROM json_each(:places) AS place
LEFT JOIN entry ON entry.strand = json_extract(place.value, '$[0]')
    AND entry.n = json_extract(place.value, '$[1]')
ORDER BY place.key
-- name: bodies_of_strands
SELECT strand, CAST(n AS INTEGER), name, CAST(salt AS BLOB),
    CASE WHEN length(data) <= :size AND NOT EXISTS (
        SELECT 1 FROM body AS more WHERE more.strand = body.strand AND more.n = body.n
            AND more.name = body.name AND more.part = 1
    ) THEN CAST(data AS BLOB) END, CAST(list AS INTEGER)
FROM body WHERE strand IN (SELECT value FROM json_each(:strands)) AND part = 0
ORDER BY strand, n, name
-- name: runs
SELECT DISTINCT run FROM strand WHERE log = :log AND run > :run ORDER BY run LIMIT :limit
-- name: runs_before
-- The ids of strands follow the order of their creation, and every run begins with its strand main.
-- One without entries was never opened: its opening was set aside.
SELECT run FROM strand
WHERE log = :log AND name = 'main' AND id < (
    SELECT id FROM strand WHERE log = :log AND run = :run AND name = 'main'
) AND EXISTS (SELECT 1 FROM entry WHERE entry.strand = strand.id) ORDER BY id DESC LIMIT :limit
-- name: last_runs
SELECT run FROM strand
WHERE log = :log AND name = 'main' AND EXISTS (SELECT 1 FROM entry WHERE entry.strand = strand.id)
ORDER BY id DESC LIMIT :limit
-- name: summaries
SELECT run, CAST(version AS INTEGER), CAST(ended AS INTEGER), CAST(data AS BLOB),
    CAST(tag AS BLOB)
FROM run_summary WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))
-- name: summary_runs
SELECT run FROM run_summary WHERE log = :log AND run > :run ORDER BY run LIMIT :limit
-- name: set_summary
INSERT INTO run_summary (log, run, version, ended, data, tag)
VALUES (:log, :run, :version, :ended, :data, :tag)
ON CONFLICT DO UPDATE SET version = excluded.version, ended = excluded.ended,
    data = excluded.data, tag = excluded.tag
-- name: bodies_at
-- A body whose first part is small may have more parts.
SELECT strand.id, CAST(body.salt AS BLOB),
    CASE WHEN length(body.data) <= :size AND NOT EXISTS (
        SELECT 1 FROM body AS more WHERE more.strand = body.strand AND more.n = body.n
            AND more.name = body.name AND more.part = 1
    ) THEN CAST(body.data AS BLOB) END, CAST(body.list AS INTEGER)
FROM json_each(:places) AS place
LEFT JOIN strand ON strand.log = :log AND strand.run = json_extract(place.value, '$[0]')
    AND strand.name = json_extract(place.value, '$[1]')
LEFT JOIN body ON body.strand = strand.id AND body.n = json_extract(place.value, '$[2]')
    AND body.name = json_extract(place.value, '$[3]') AND body.part = 0
ORDER BY place.key
-- name: body_part
SELECT CAST(data AS BLOB) FROM body WHERE strand = :strand AND n = :n AND name = :name AND part = :part
-- name: erase
DELETE FROM body WHERE strand = :strand AND n = :n AND name = :name
-- name: checkpoints
SELECT CAST(size AS INTEGER), CAST(note AS BLOB) FROM checkpoint WHERE log = :log AND size >= :size ORDER BY size LIMIT :limit
-- name: checkpoint
SELECT CAST(note AS BLOB), CAST(size AS INTEGER) FROM checkpoint
WHERE log = :log AND size <= min(:size, (SELECT size FROM log WHERE id = :log))
ORDER BY size DESC LIMIT 1
-- name: lock_checkpoint
SELECT CAST(note AS BLOB) FROM checkpoint WHERE log = :log AND size = :size
-- name: save_checkpoint
INSERT INTO checkpoint (log, size, note) VALUES (:log, :size, :note)
ON CONFLICT DO UPDATE SET note = excluded.note WHERE length(excluded.note) > length(note)
-- name: waiting
-- CROSS JOIN fixes the order of the tables: a join that starts at the strands would read the whole
-- log.  Rows up to `last` were left behind by a sequencer of an older release.
SELECT entry.id, strand.run, strand.name, entry.n,
    CAST(entry.bytes AS BLOB), CAST(entry.tag AS BLOB)
FROM pending
CROSS JOIN entry ON entry.id = pending.entry CROSS JOIN strand ON strand.id = entry.strand
WHERE pending.log = :log AND pending.entry > (SELECT last FROM log WHERE id = :log)
    AND strand.log = :log
ORDER BY pending.entry LIMIT :limit
-- name: unsequenced
-- scan: reads all entries of the file since this log was sequenced, and relies on no other table
SELECT strand.run, strand.name, entry.n,
    CAST(entry.bytes AS BLOB), CAST(entry.tag AS BLOB)
FROM entry CROSS JOIN strand ON strand.id = entry.strand
WHERE entry.id > (SELECT last FROM log WHERE id = :log) AND strand.log = :log ORDER BY entry.id
-- name: stored
-- scan: counts all entries
SELECT count(*) FROM entry JOIN strand ON strand.id = entry.strand WHERE strand.log = :log
-- name: pending_span
SELECT (
    SELECT min(entry) FROM pending
    WHERE log = :log AND entry > (SELECT last FROM log WHERE id = :log)
), (
    SELECT max(entry) FROM pending
    WHERE log = :log AND entry > (SELECT last FROM log WHERE id = :log)
)

-- name: oldest_pending
SELECT count(*), coalesce(sum(1), 0), min(entry), max(entry) FROM (
    SELECT entry FROM pending
    WHERE log = :log AND entry > (SELECT last FROM log WHERE id = :log)
    ORDER BY entry LIMIT :limit
)
-- name: newest_pending
SELECT count(*), coalesce(sum(1), 0), min(entry), max(entry) FROM (
    SELECT entry FROM pending
    WHERE log = :log AND entry > (SELECT last FROM log WHERE id = :log)
    ORDER BY entry DESC LIMIT :limit
)
-- name: remove_pending
DELETE FROM pending WHERE log = ? AND entry BETWEEN ? AND ?
-- name: remove_left_behind
DELETE FROM pending WHERE log = ? AND entry < ?
-- name: count_rows
-- scan: verification counts every table
SELECT
    (SELECT count(*) FROM strand WHERE log = :log
        AND EXISTS (SELECT 1 FROM entry WHERE entry.strand = strand.id)),
    (SELECT count(*) FROM entry JOIN strand ON strand.id = entry.strand WHERE strand.log = :log),
    (SELECT count(*) FROM leaf WHERE log = :log),
    (SELECT count(*) FROM entry JOIN strand ON strand.id = entry.strand
        WHERE strand.log = :log AND entry.id > (SELECT last FROM log WHERE id = :log)),
    (SELECT count(*) FROM tile WHERE log = :log),
    (SELECT count(*) FROM checkpoint WHERE log = :log),
    (SELECT count(*) FROM body JOIN strand ON strand.id = body.strand
        WHERE strand.log = :log AND body.part = 0),
    (SELECT count(*) FROM head WHERE log = :log),
    (SELECT count(*) FROM account WHERE log = :log),
    (SELECT last FROM log WHERE id = :log) = coalesce(
        (SELECT entry FROM leaf WHERE log = :log AND entry > 0 ORDER BY idx DESC LIMIT 1), 0),
    (SELECT count(*) FROM entry WHERE strand >= 0 AND strand NOT IN (SELECT id FROM strand))
        + (SELECT count(*) FROM body WHERE strand NOT IN (SELECT id FROM strand))
        + (SELECT count(*) FROM body WHERE part <> 0 AND NOT EXISTS (
            SELECT 1 FROM body AS before WHERE before.strand = body.strand AND before.n = body.n
                AND before.name = body.name AND before.part = body.part - 1
        ))
        + (SELECT count(*) FROM strand WHERE log NOT IN (SELECT id FROM log))
        + (SELECT count(*) FROM (
            SELECT log FROM leaf UNION ALL SELECT log FROM tile UNION ALL SELECT log FROM checkpoint
            UNION ALL SELECT log FROM account UNION ALL SELECT log FROM alarm
            UNION ALL SELECT log FROM once UNION ALL SELECT log FROM head
            UNION ALL SELECT log FROM lease UNION ALL SELECT log FROM budget
        ) WHERE log NOT IN (SELECT id FROM log))
-- name: strand_head
SELECT CAST(n AS INTEGER), CAST(leaf AS BLOB), CAST(tag AS BLOB) FROM head
WHERE log = :log AND strand = :strand
-- name: set_strand_head
INSERT INTO head (log, strand, n, leaf, tag) VALUES (:log, :strand, :n, :leaf, :tag)
ON CONFLICT DO UPDATE SET n = excluded.n, leaf = excluded.leaf, tag = excluded.tag
-- name: mark_ended
-- 1: it takes no entry, and is signed to its end.  0: it has ended.
INSERT INTO head (log, strand, n, leaf)
SELECT id, 'ended', :n, zeroblob(32) FROM log WHERE origin = :origin
ON CONFLICT DO UPDATE SET n = excluded.n
-- name: reopen_log
DELETE FROM head WHERE log = (SELECT id FROM log WHERE origin = :origin) AND strand = 'ended'
-- name: has_ended
SELECT count(*) FROM head WHERE log = :log AND strand = 'ended' AND n = 0
-- name: is_stopped
SELECT count(*) FROM head WHERE log = :log AND strand = 'ended'
-- name: quarantine
SELECT id, run, strand, CAST(n AS INTEGER), CAST(bytes AS BLOB), CAST(tag AS BLOB),
    CAST(at AS INTEGER)
FROM quarantine WHERE log = :log ORDER BY id
-- name: quarantined
SELECT count(*) FROM quarantine WHERE log = :log
-- name: add_quarantine
INSERT INTO quarantine (log, run, strand, n, bytes, tag, at)
SELECT strand.log, strand.run, strand.name, entry.n, entry.bytes, entry.tag,
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
FROM entry JOIN strand ON strand.id = entry.strand WHERE entry.id = :id
-- name: add_quarantine_bodies
INSERT INTO quarantine_body (quarantine, name, part, salt, data)
SELECT :quarantine, body.name, body.part, body.salt, body.data
FROM entry JOIN body ON body.strand = entry.strand AND body.n = entry.n WHERE entry.id = :id
-- name: remove_bodies
DELETE FROM body WHERE (strand, n) = (SELECT strand, n FROM entry WHERE id = :id)
-- name: remove_entry
-- An empty row without a strand keeps the id: SQLite reuses the id of a deleted last row, and a
-- sequencer that has read the old row would mistake the new one for it.
UPDATE entry SET strand = -id, n = 0, bytes = x'', tag = x''
WHERE id = :id AND bytes = :data AND id > (SELECT last FROM log WHERE id = :log)
-- name: remove_waiting
DELETE FROM pending WHERE log = :log AND entry = :id
-- name: discard_quarantine_bodies
DELETE FROM quarantine_body WHERE quarantine = (
    SELECT id FROM quarantine WHERE log = :log AND id = :id
)
-- name: discard_quarantine
DELETE FROM quarantine WHERE log = :log AND id = :id
-- name: swap
UPDATE log SET size = ?, root = ?, last = ? WHERE id = ? AND size = ? AND root = ? AND last < ?
-- name: add_leaves
INSERT INTO leaf (log, idx, entry, prefix) VALUES 
-- name: put_tile
INSERT INTO tile (log, level, idx, hashes) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET hashes = excluded.hashes
-- name: now
SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
-- name: open_account
INSERT INTO account (log, run, usd_cap, tokens_cap, calls_cap)
VALUES (:log, :run, :usd, :tokens, :calls) ON CONFLICT DO NOTHING
-- name: charge
UPDATE account SET usd = usd + :usd, tokens = tokens + :tokens, calls = calls + :calls
WHERE log = :log AND run = :run AND (NOT :guarded OR (
    (:usd <= 0 OR usd + :usd <= usd_cap)
    AND (:tokens <= 0 OR tokens + :tokens <= tokens_cap)
    AND (:calls <= 0 OR calls + :calls <= calls_cap)
))
-- name: account
SELECT CAST(usd_cap AS INTEGER), CAST(tokens_cap AS INTEGER), CAST(calls_cap AS INTEGER),
    CAST(usd AS INTEGER), CAST(tokens AS INTEGER), CAST(calls AS INTEGER)
FROM account WHERE log = :log AND run = :run
-- name: accounts
SELECT run, CAST(usd_cap AS INTEGER), CAST(tokens_cap AS INTEGER), CAST(calls_cap AS INTEGER),
    CAST(usd AS INTEGER), CAST(tokens AS INTEGER), CAST(calls AS INTEGER)
FROM account WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))
-- name: account_runs
SELECT run FROM account WHERE log = :log AND run > :run ORDER BY run LIMIT :limit
-- name: periods
SELECT strftime('%Y-%m-%d', 'now'), strftime('%Y-%m', 'now'),
    CAST(strftime('%s', 'now', 'start of day', '+1 day') AS INTEGER) * 1000000,
    CAST(strftime('%s', 'now', 'start of month', '+1 month') AS INTEGER) * 1000000,
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
    strftime('minute %Y-%m-%d %H:%M', 'now'), (CAST(strftime('%s', 'now') AS INTEGER) / 60 + 1) * 60000000,
    strftime('hour %Y-%m-%d %H', 'now'), (CAST(strftime('%s', 'now') AS INTEGER) / 3600 + 1) * 3600000000,
    strftime('week %Y-%m-%d', 'now', 'weekday 0', '-6 days'),
    CAST(strftime('%s', 'now', 'start of day', 'weekday 0', '+1 day') AS INTEGER) * 1000000
-- name: drop_past_slices
DELETE FROM budget
WHERE log = :log AND period >= :first AND period < :period AND scope = :scope
-- name: add_slice
INSERT INTO budget (log, period, scope, owner, until)
VALUES (:log, :period, :scope, :owner, :until) ON CONFLICT DO NOTHING
-- name: lock_budget
UPDATE budget SET until = until
WHERE log = :log AND period = :period AND scope = :scope AND owner = ''
-- name: has_entries_from
SELECT 1 FROM strand JOIN entry ON entry.strand = strand.id
WHERE strand.log = :log AND strand.run = :run AND strand.name = :name AND entry.n >= :n LIMIT 1
-- name: held_slices
-- scan: reads the slices of all periods, when an operator sets a cap or freezes spending
SELECT DISTINCT period, scope FROM budget
WHERE log = :log AND (usd_held > usd OR tokens_held > tokens OR runs_held > runs)
-- name: slices
SELECT owner, usd_held, tokens_held, runs_held, usd, tokens, runs FROM budget
WHERE log = :log AND period = :period AND scope = :scope
-- name: take_back
UPDATE budget SET usd_held = min(usd_held, usd), tokens_held = min(tokens_held, tokens),
    runs_held = min(runs_held, runs)
WHERE log = :log AND period = :period AND scope = :scope AND owner <> :owner
    AND (usd_held > usd OR tokens_held > tokens OR runs_held > runs)
-- name: hold_slice
UPDATE budget
SET usd_held = :usd, tokens_held = :tokens, runs_held = :runs
WHERE log = :log AND period = :period AND scope = :scope AND owner = :owner
-- name: charge_slice
UPDATE budget
SET usd = usd + :usd, tokens = tokens + :tokens, runs = runs + :runs
WHERE log = :log AND period = :period AND scope = :scope AND owner = :owner
    AND (NOT :guarded OR (
        until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        AND (:usd <= 0 OR usd + :usd <= usd_held)
        AND (:tokens <= 0 OR tokens + :tokens <= tokens_held)
        AND (:runs <= 0 OR runs + :runs <= runs_held)
    ))
-- name: remove_slice
DELETE FROM budget
WHERE log = :log AND period = :period AND scope = :scope AND owner = :owner
RETURNING usd, tokens, runs
-- name: budget_use
SELECT scope, period, max(until), sum(usd), sum(tokens), sum(runs)
FROM budget WHERE log = :log AND period IN (SELECT value FROM json_each(:periods))
GROUP BY scope, period ORDER BY period, scope
-- name: overruns
SELECT scope, CAST(runs AS INTEGER) FROM budget WHERE log = :log AND period = 'overrun'
-- name: ask_once
INSERT INTO once (log, name, run, digest, tag)
VALUES (:log, :name, :run, :digest, :tag) ON CONFLICT DO NOTHING
-- name: forget_asked
UPDATE once SET digest = '', tag = NULL WHERE log = :log AND run = :run
-- name: asked
SELECT run, digest, CAST(tag AS BLOB) FROM once WHERE log = :log AND name = :name
-- name: tag_idempotency
UPDATE once SET tag = :tag WHERE log = :log AND name = :name
-- name: idempotency_rows
SELECT name, run, digest, CAST(tag AS BLOB) FROM once
WHERE log = :log AND name > :name ORDER BY name LIMIT :limit
-- name: interrupted_runs
SELECT run FROM interrupted WHERE log = :log AND run > :run ORDER BY run LIMIT :limit

-- name: list_interrupted
INSERT INTO interrupted (log, run) VALUES (:log, :run) ON CONFLICT DO NOTHING

-- name: unlist_interrupted
DELETE FROM interrupted WHERE log = :log AND run = :run

-- name: unarchived_runs
-- scan: the archive command looks at every run that is stored here
SELECT run FROM strand
WHERE log = :log AND run > :run AND name = 'main' AND EXISTS (
    SELECT 1 FROM entry WHERE entry.strand = strand.id AND n = 0 AND length(bytes) > 0
)
ORDER BY run LIMIT :limit

-- name: empty_entries
-- The row stays, so that its position stays taken.
UPDATE entry SET bytes = x'', tag = x''
WHERE strand = :strand AND n < :length AND length(bytes) > 0

-- name: remove_archived_bodies
DELETE FROM body WHERE strand = :strand AND n < :length

-- name: add_ended
INSERT INTO ended (log, run, parent, at)
VALUES (:log, :run, :parent, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
ON CONFLICT DO NOTHING

-- name: due_ended
SELECT run FROM ended INDEXED BY ended_at WHERE log = :log AND at <= :before
ORDER BY at LIMIT :limit

-- name: postpone_ended
-- The account of a run says what its parent has to pay, so it stays as long as the parent is open.
-- An open run has an account, and one that has ended is listed until its account is deleted.
UPDATE ended AS child SET at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))
    AND EXISTS (SELECT 1 FROM account WHERE log = child.log AND run = child.parent)
    AND NOT EXISTS (
        SELECT 1 FROM ended AS parent WHERE parent.log = child.log AND parent.run = child.parent
    )
RETURNING run

-- name: remove_accounts
DELETE FROM account WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))

-- name: remove_timers
DELETE FROM alarm WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))

-- name: remove_idempotency
DELETE FROM once WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))

-- name: remove_interrupted
DELETE FROM interrupted WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))

-- name: remove_sums
-- The sums of a run are named by it.
DELETE FROM budget WHERE log = :log AND period = 'run' AND EXISTS (
    SELECT 1 FROM json_each(:runs) WHERE substr(scope, -length(value) - 1) = '/' || value
)

-- name: remove_ended
DELETE FROM ended WHERE log = :log AND run IN (SELECT value FROM json_each(:runs))

-- name: set_alarm
INSERT INTO alarm (log, run, strand, at) VALUES (:log, :run, :strand, :at)
ON CONFLICT DO UPDATE SET at = excluded.at
-- name: add_alarm
INSERT INTO alarm (log, run, strand, at) VALUES (:log, :run, :strand, :at) ON CONFLICT DO NOTHING
-- name: clear_alarm
DELETE FROM alarm WHERE log = :log AND run = :run AND strand = :strand
-- name: alarms
SELECT run, strand, at FROM alarm
WHERE log = :log AND (run, strand) > (:run, :strand) ORDER BY run, strand LIMIT :limit
-- name: alarm
SELECT run, strand, CAST(at AS INTEGER) FROM alarm
WHERE log = :log AND run = :run AND strand = :strand
-- name: open_runs
SELECT count(*) FROM (SELECT 1 FROM alarm WHERE log = :log AND strand = :strand LIMIT :limit)
-- name: gates_waiting
SELECT count(*) FROM (
    SELECT 1 FROM alarm INDEXED BY alarm_gate
    WHERE log = :log AND strand >= 'gate/' AND strand < 'gate0' LIMIT :limit
)
-- name: due_alarms
-- The longest due timers come first, which is the order of the index.
SELECT run, strand, CAST(at AS INTEGER) FROM alarm INDEXED BY alarm_due
WHERE log = :log AND at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    AND (at, run, strand) > (:at, :run, :strand)
ORDER BY at, run, strand LIMIT :limit
-- name: claimable
-- The timer of a run that a live worker has claimed is claimed only by that worker: no other can
-- signal the driver.
SELECT run, strand, CAST(at AS INTEGER) FROM alarm AS timer INDEXED BY alarm_due
WHERE log = :log AND at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    AND NOT EXISTS (
        SELECT 1 FROM claim AS held
        WHERE held.log = timer.log AND held.run = timer.run AND held.worker <> :worker
            AND EXISTS (
                SELECT 1 FROM lease WHERE log = held.log AND worker = held.worker
                    AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
            )
    )
ORDER BY at LIMIT :limit

-- name: own_due
-- The due timers of runs that this worker has claimed.  The plus keeps SQLite from reading all due
-- timers of the log instead of those of each run.
SELECT timer.run, timer.strand, CAST(timer.at AS INTEGER)
FROM claim AS held INDEXED BY claim_worker CROSS JOIN alarm AS timer
    ON timer.log = held.log AND timer.run = held.run
WHERE held.log = :log AND held.worker = :worker
    AND +timer.at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
LIMIT :own_limit

-- name: free_due
-- The due timers of runs that no live worker has claimed, longest due first.
SELECT run, strand, CAST(at AS INTEGER) FROM alarm AS timer INDEXED BY alarm_due
WHERE log = :log AND at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    AND NOT EXISTS (
        SELECT 1 FROM claim AS held WHERE held.log = timer.log AND held.run = timer.run AND (
            held.worker = :worker OR EXISTS (
                SELECT 1 FROM lease WHERE log = held.log AND worker = held.worker
                    AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
            )
        )
    )
ORDER BY at LIMIT :limit

-- name: has_lease
SELECT 1 FROM lease WHERE log = :log AND worker = :worker
    AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)

-- name: add_claim
INSERT INTO claim (log, run, worker) VALUES (:log, :run, :worker)
ON CONFLICT DO UPDATE SET worker = excluded.worker

-- name: release_runs
DELETE FROM claim
WHERE log = :log AND run IN (SELECT value FROM json_each(:runs)) AND worker = :worker

-- name: drop_lost_lease
DELETE FROM lease
WHERE log = :log AND worker = :worker
    AND until <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)

-- name: make_claimed_due
UPDATE alarm SET at = min(at, :at)
WHERE log = :log AND strand = :strand AND run IN (
    SELECT run FROM claim WHERE log = :log AND worker = :worker
)

-- name: drop_claims
DELETE FROM claim WHERE log = :log AND worker = :worker

-- name: claim_run
-- Without a lease nothing is claimed: nobody would take over what it has claimed.
INSERT INTO claim (log, run, worker)
SELECT log, :run, worker FROM lease WHERE log = :log AND worker = :worker
    AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
ON CONFLICT DO UPDATE SET worker = excluded.worker
WHERE claim.worker = excluded.worker OR NOT EXISTS (
    SELECT 1 FROM lease WHERE log = claim.log AND worker = claim.worker
        AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
)

-- name: put_off
-- A time below `anew` means that the timer was set to be due at once.  A timer that was postponed
-- before and becomes due again without being set is postponed for twice as long.
UPDATE alarm SET
    at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + CASE
        WHEN :own THEN :longest
        WHEN pause IS NULL OR at < :anew THEN :shortest
        ELSE min(2 * pause, :longest)
    END,
    pause = CASE
        WHEN :own THEN :longest
        WHEN pause IS NULL OR at < :anew THEN :shortest
        ELSE min(2 * pause, :longest)
    END
WHERE log = :log AND run = :run AND strand = :strand

-- name: snooze
UPDATE alarm SET at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :micros
WHERE log = :log AND run = :run AND strand = :strand AND at = :at
-- name: silence
DELETE FROM alarm WHERE log = :log AND run = :run AND strand = :strand AND at = :at
-- name: hold_lease
INSERT INTO lease (log, worker, until)
VALUES (:log, :worker, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :micros)
ON CONFLICT DO UPDATE SET until = excluded.until
-- name: cut_leases
-- No worker takes so long a lease: somebody has edited the table, and its runs would wait.
UPDATE lease
SET until = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :most
WHERE log = :log AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :most
-- name: drop_lease
DELETE FROM lease WHERE log = :log AND worker = :worker
-- name: workers
SELECT worker FROM lease WHERE log = :log
-- name: present_workers
SELECT worker FROM lease
WHERE log = :log AND until > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
-- name: lost_workers
SELECT worker FROM lease
WHERE log = :log AND until <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
-- name: catalogue
-- Indexes of constraints have no statement, and statistics and sequences are of SQLite itself.
SELECT type, name, sql FROM main.sqlite_master
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
