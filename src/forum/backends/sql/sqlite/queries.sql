-- SQLite lets any type stand in any column: what is read as bytes is cast to bytes.
-- The time is taken from julianday, of which every SQLite has the fractions of a second.

-- name: add_log
INSERT INTO log (origin, root) VALUES (:origin, :root) ON CONFLICT DO NOTHING
-- name: log
SELECT id FROM log WHERE origin = :origin
-- name: origins
SELECT origin FROM log ORDER BY id
-- name: add_strand
INSERT INTO strand (log, run, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
-- name: strand
SELECT id FROM strand WHERE log = :log AND run = :run AND name = :name
-- name: add_entries
INSERT INTO entry (strand, n, bytes) VALUES
-- name: add_body
INSERT INTO body (strand, n, name, part, salt, data) VALUES (?, ?, ?, ?, ?, ?)
-- name: head
SELECT CAST(size AS INTEGER), CAST(root AS BLOB) FROM log WHERE id = :log
-- name: tile
SELECT CAST(substr(hashes, 1, :length) AS BLOB) FROM tile
WHERE log = :log AND level = :level AND idx = :idx
-- name: entries
SELECT leaf.idx, CAST(entry.bytes AS BLOB) FROM leaf LEFT JOIN entry ON entry.id = leaf.entry
WHERE leaf.log = :log AND leaf.idx >= :start AND leaf.idx < :stop ORDER BY leaf.idx
-- name: find
SELECT CAST(idx AS INTEGER) FROM leaf WHERE log = :log AND prefix BETWEEN :low AND :high ORDER BY idx
-- name: indexes
SELECT CAST(prefix AS INTEGER), CAST(idx AS INTEGER) FROM leaf
WHERE log = :log AND prefix IN (SELECT value FROM json_each(:prefixes))
-- name: strand_entries
SELECT CAST(n AS INTEGER), CAST(bytes AS BLOB) FROM entry WHERE strand = :strand AND n >= :n ORDER BY n LIMIT :limit
-- name: last
SELECT CAST(bytes AS BLOB) FROM entry WHERE strand = :strand ORDER BY n DESC LIMIT 1
-- name: strands
SELECT name FROM strand WHERE log = :log AND run = :run ORDER BY name
-- name: runs
SELECT DISTINCT run FROM strand WHERE log = :log AND run > :run ORDER BY run LIMIT :limit
-- name: runs_before
SELECT DISTINCT run FROM strand WHERE log = :log AND run < :run ORDER BY run DESC LIMIT :limit
-- name: last_runs
SELECT DISTINCT run FROM strand WHERE log = :log ORDER BY run DESC LIMIT :limit
-- name: body_salt
SELECT CAST(salt AS BLOB) FROM body WHERE strand = :strand AND n = :n AND name = :name AND part = 0
-- name: body_part
SELECT CAST(data AS BLOB) FROM body WHERE strand = :strand AND n = :n AND name = :name AND part = :part
-- name: erase
DELETE FROM body WHERE strand = :strand AND n = :n AND name = :name
-- name: checkpoints
SELECT CAST(size AS INTEGER), CAST(note AS BLOB) FROM checkpoint WHERE log = :log AND size >= :size ORDER BY size LIMIT :limit
-- name: checkpoint
SELECT CAST(note AS BLOB) FROM checkpoint WHERE log = :log AND size <= :size ORDER BY size DESC LIMIT 1
-- name: save_checkpoint
INSERT INTO checkpoint (log, size, note) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET note = excluded.note WHERE length(excluded.note) > length(note)
-- name: waiting
SELECT entry.id, CAST(entry.bytes AS BLOB) FROM entry JOIN strand ON strand.id = entry.strand
WHERE entry.id > (SELECT last FROM log WHERE id = :log) AND strand.log = :log
ORDER BY entry.id LIMIT :limit
-- name: unsequenced
SELECT CAST(entry.bytes AS BLOB) FROM entry JOIN strand ON strand.id = entry.strand
WHERE entry.id > (SELECT last FROM log WHERE id = :log) AND strand.log = :log ORDER BY entry.id
-- name: stored
SELECT count(*) FROM entry JOIN strand ON strand.id = entry.strand WHERE strand.log = :log
-- name: backlog
SELECT count(*) FROM entry JOIN strand ON strand.id = entry.strand
WHERE entry.id > (SELECT last FROM log WHERE id = :log) AND strand.log = :log
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
-- name: ask_once
INSERT INTO once (log, name, run, digest)
VALUES (:log, :name, :run, :digest) ON CONFLICT DO NOTHING
-- name: forget_asked
UPDATE once SET digest = '' WHERE log = :log AND run = :run
-- name: asked
SELECT run, digest FROM once WHERE log = :log AND name = :name
-- name: set_alarm
INSERT INTO alarm (log, run, strand, at) VALUES (:log, :run, :strand, :at)
ON CONFLICT DO UPDATE SET at = excluded.at
-- name: clear_alarm
DELETE FROM alarm WHERE log = :log AND run = :run AND strand = :strand
-- name: alarms
SELECT run, strand, CAST(at AS INTEGER) FROM alarm
WHERE log = :log AND (run, strand) > (:run, :strand) ORDER BY run, strand LIMIT :limit
-- name: alarm
SELECT run, strand, CAST(at AS INTEGER) FROM alarm
WHERE log = :log AND run = :run AND strand = :strand
-- name: due_alarms
SELECT run, strand, CAST(at AS INTEGER) FROM alarm INDEXED BY alarm_due
WHERE log = :log AND at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    AND (run, strand) > (:run, :strand)
ORDER BY run, strand LIMIT :limit
-- name: snooze
UPDATE alarm SET at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :micros
WHERE log = :log AND run = :run AND strand = :strand AND at = :at
-- name: silence
DELETE FROM alarm WHERE log = :log AND run = :run AND strand = :strand AND at = :at
-- name: hold_lease
INSERT INTO lease (log, worker, until)
VALUES (:log, :worker, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) + :micros)
ON CONFLICT DO UPDATE SET until = excluded.until
-- name: drop_lease
DELETE FROM lease WHERE log = :log AND worker = :worker
-- name: workers
SELECT worker FROM lease WHERE log = :log
-- name: lost_workers
SELECT worker FROM lease
WHERE log = :log AND until <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
