-- What clients asked for under names of their own (Idempotency-Key), so that asking again is harmless.
CREATE TABLE forum.once (
    log     integer NOT NULL,
    name    text    COLLATE "C" NOT NULL,
    run     text    COLLATE "C" NOT NULL,
    digest  text    COLLATE "C" NOT NULL,
    PRIMARY KEY (log, name)
);
