-- The entries that have no index yet, by log: found without reading other logs of the file.  A
-- trigger keeps it, so that a process of an older release cannot leave an entry out.
CREATE TABLE pending (
    log     INTEGER NOT NULL REFERENCES log,
    entry   INTEGER NOT NULL,
    PRIMARY KEY (log, entry)
) WITHOUT ROWID;

INSERT INTO pending (log, entry)
SELECT strand.log, entry.id FROM entry
CROSS JOIN strand ON strand.id = entry.strand CROSS JOIN log ON log.id = strand.log
WHERE entry.id > (SELECT min(last) FROM log) AND entry.id > log.last;

CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN INSERT OR IGNORE INTO pending (log, entry) SELECT log, new.id FROM strand WHERE id = new.strand; END;

-- SQLite gives the id of the newest row again once that row is gone.
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN DELETE FROM pending WHERE log = (SELECT log FROM strand WHERE id = old.strand) AND entry = old.id; END;

-- Erasing a body forgets what was asked for in its run.
CREATE INDEX once_run ON once (log, run);
