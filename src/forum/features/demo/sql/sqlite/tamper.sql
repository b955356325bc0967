-- name: overwrite
UPDATE entry SET bytes = :bytes WHERE id = (SELECT entry FROM leaf WHERE log = :log AND idx = :idx)
-- name: delete
DELETE FROM entry WHERE id = (SELECT entry FROM leaf WHERE log = :log AND idx = :idx)
-- name: exchange
UPDATE leaf SET entry = (
    SELECT sum(entry) FROM leaf other WHERE other.log = :log AND other.idx IN (:one, :two)
) - entry
WHERE log = :log AND idx IN (:one, :two)
-- name: set_body
-- Stored whole: other bodies keep the bytes that they share with it.
UPDATE body SET data = :data, list = NULL WHERE strand = :strand AND n = :n AND name = :name
-- name: wipe_entries
DELETE FROM entry WHERE strand IN (SELECT id FROM strand WHERE log = :log)
-- name: wipe_leaves
DELETE FROM leaf WHERE log = :log
-- name: wipe_tiles
DELETE FROM tile WHERE log = :log
-- name: wipe_checkpoints
DELETE FROM checkpoint WHERE log = :log AND size > :size
-- name: wipe_head
UPDATE log SET size = 0, root = :root, last = 0 WHERE id = :log
-- name: unsequenced_delete
DELETE FROM entry WHERE strand = :strand AND n = :n
-- name: move_entry
UPDATE entry SET strand = (
    SELECT other.id FROM strand JOIN strand other ON other.log = strand.log AND other.run = strand.run
    WHERE strand.id = :strand AND other.name = :other
) WHERE strand = :strand AND n = :n
-- name: rename_run
UPDATE strand SET run = :name WHERE log = :log AND run = :run
-- name: hide_row
UPDATE log SET last = (SELECT id FROM entry WHERE strand = :strand AND n = :n) WHERE id = :log
-- name: set_prefix
UPDATE leaf SET prefix = :other WHERE log = :log AND prefix = :prefix
-- name: set_cap
UPDATE account SET usd_cap = :usd WHERE log = :log AND run = :run
-- name: clear_timers
DELETE FROM alarm WHERE log = :log AND run = :run
-- name: redirect
UPDATE once SET run = :other WHERE log = :log AND run = :run
-- name: put_view
ALTER TABLE run_summary RENAME TO hidden;
CREATE VIEW run_summary AS SELECT * FROM hidden WHERE run <> 'RUN'
-- name: put_trigger
CREATE TRIGGER swallow BEFORE INSERT ON quarantine BEGIN SELECT RAISE(IGNORE); END
-- name: put_index
DROP INDEX strand_main;
CREATE INDEX strand_main ON strand (log, id) WHERE name = 'main' AND run <> 'RUN'
-- name: put_column
ALTER TABLE checkpoint ADD COLUMN shown INTEGER NOT NULL DEFAULT 1
