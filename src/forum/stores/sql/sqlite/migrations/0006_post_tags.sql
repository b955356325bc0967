-- A process of a release that writes no tags is stopped at its next write, and not later, when its
-- entries were acknowledged and no sequencer takes them.
CREATE TRIGGER entry_tagged BEFORE INSERT ON entry WHEN NEW.tag IS NULL BEGIN
    SELECT RAISE(ABORT, 'entries need a tag: this release is too old for the ledger'); END
