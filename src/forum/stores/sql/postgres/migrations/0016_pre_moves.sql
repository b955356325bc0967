-- Logs that are being moved to another database, or have been.  It is the routing table, and the
-- fence: a log has its row here in the statement that makes it leave, and no row of it is appended
-- in this database from then on.
CREATE TABLE forum.move (
    log     integer PRIMARY KEY REFERENCES forum.log,
    state   text    NOT NULL CHECK (state IN ('copying', 'paused', 'left', 'arriving')),
    id      text    NOT NULL,  -- the same in both databases
    place   text    NOT NULL   -- the other database, by its name in forum.toml
);
