-- A process of a release that writes no tags is stopped at its next write, and not later, when its
-- entries were acknowledged and no sequencer takes them.  NOT VALID: it holds for new rows only.
ALTER TABLE forum.entry ADD CONSTRAINT entry_tagged CHECK (tag IS NOT NULL) NOT VALID;
