-- name: overwrite
UPDATE forum.entry e SET bytes = %(bytes)s
FROM forum.sequenced s, unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)
WHERE s.log = %(log)s AND s.first + u.place - 1 = %(idx)s
    AND e.log = s.log AND e.strand = u.strand AND e.n = u.n
-- name: delete
DELETE FROM forum.entry e
USING forum.sequenced s, unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)
WHERE s.log = %(log)s AND s.first + u.place - 1 = %(idx)s
    AND e.log = s.log AND e.strand = u.strand AND e.n = u.n
-- name: exchange
WITH places AS (
    SELECT s.first, u.place, u.strand, u.n, s.first + u.place - 1 AS idx
    FROM forum.sequenced s, unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)
    WHERE s.log = %(log)s
), moved AS (
    SELECT first, place, strand, n, CASE idx WHEN %(one)s THEN %(two)s WHEN %(two)s THEN %(one)s
        ELSE idx END AS idx
    FROM places
), again AS (
    SELECT places.first, array_agg(moved.strand ORDER BY places.place) AS strands,
        array_agg(moved.n ORDER BY places.place) AS ns
    FROM places JOIN moved ON moved.idx = places.idx GROUP BY places.first
)
UPDATE forum.sequenced s SET strands = again.strands, ns = again.ns
FROM again WHERE s.log = %(log)s AND s.first = again.first
-- name: set_body
-- Stored whole: other bodies keep the bytes that they share with it.
UPDATE forum.body SET data = %(data)s, list = NULL
WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s AND name = %(name)s
-- name: wipe_entries
DELETE FROM forum.entry WHERE log = %(log)s
-- name: wipe_leaves
WITH leaves AS (DELETE FROM forum.leaf WHERE log = %(log)s),
    waiting AS (DELETE FROM forum.pending WHERE log = %(log)s)
DELETE FROM forum.sequenced WHERE log = %(log)s
-- name: wipe_tiles
DELETE FROM forum.tile WHERE log = %(log)s
-- name: wipe_checkpoints
DELETE FROM forum.checkpoint WHERE log = %(log)s AND size > %(size)s
-- name: wipe_head
UPDATE forum.log SET size = 0, root = %(root)s WHERE id = %(log)s
-- name: unsequenced_delete
WITH gone AS (DELETE FROM forum.entry WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s)
UPDATE forum.pending SET ns = array_remove(ns, %(n)s), strands = strands[1:cardinality(strands) - 1]
WHERE log = %(log)s AND %(strand)s = ANY(strands) AND %(n)s = ANY(ns)
-- name: move_entry
UPDATE forum.entry SET strand = (
    SELECT other.id FROM forum.strand JOIN forum.strand other
    ON other.log = strand.log AND other.run = strand.run
    WHERE strand.id = %(strand)s AND other.name = %(other)s
) WHERE log = %(log)s AND strand = %(strand)s AND n = %(n)s
-- name: rename_run
UPDATE forum.strand SET run = %(name)s WHERE log = %(log)s AND run = %(run)s
-- name: hide_row
DELETE FROM forum.pending WHERE log = %(log)s AND %(strand)s = ANY(strands) AND %(n)s = ANY(ns)
-- name: set_prefix
UPDATE forum.leaf SET prefix = %(other)s WHERE log = %(log)s AND prefix = %(prefix)s
-- name: set_cap
UPDATE forum.account SET usd_cap = %(usd)s WHERE log = %(log)s AND run = %(run)s
-- name: clear_timers
DELETE FROM forum.alarm WHERE log = %(log)s AND run = %(run)s
-- name: redirect
UPDATE forum.once SET run = %(other)s WHERE log = %(log)s AND run = %(run)s
-- name: put_view
ALTER TABLE forum.run_summary RENAME TO hidden;
CREATE VIEW forum.run_summary AS SELECT * FROM forum.hidden WHERE run <> 'RUN'
-- name: put_trigger
CREATE FUNCTION forum.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER swallow BEFORE INSERT ON forum.quarantine
FOR EACH ROW EXECUTE FUNCTION forum.swallow()
-- name: put_index
DROP INDEX forum.strand_main;
CREATE INDEX strand_main ON forum.strand (log, id) WHERE name = 'main' AND run <> 'RUN'
-- name: put_column
ALTER TABLE forum.checkpoint ADD COLUMN shown boolean NOT NULL DEFAULT true
