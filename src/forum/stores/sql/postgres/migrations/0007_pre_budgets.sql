-- Caps over many runs.  A process takes a slice of a cap (held) in a commit of its own, and spends
-- from it in the commits of its calls: a row that no other process changes but to take back what
-- was not spent.  The row without an owner is locked by whoever takes a slice, and counts what
-- processes have used that have ended.
-- With room in every page: a charge then touches no index.
CREATE TABLE forum.budget (
    log         integer NOT NULL,
    period      text    COLLATE "C" NOT NULL,  -- 2026-11-16 or 2026-11: UTC, by the database's clock
    scope       text    COLLATE "C" NOT NULL,
    owner       text    COLLATE "C" NOT NULL,
    until       bigint  NOT NULL,  -- the end of the period, in microseconds since 1970
    usd_held    bigint  NOT NULL DEFAULT 0,  -- nano-dollars
    tokens_held bigint  NOT NULL DEFAULT 0,
    runs_held   bigint  NOT NULL DEFAULT 0,
    usd         bigint  NOT NULL DEFAULT 0,  -- spent or reserved; an overrun passes what is held
    tokens      bigint  NOT NULL DEFAULT 0,
    runs        bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (log, period, scope, owner)
) WITH (fillfactor = 50);
