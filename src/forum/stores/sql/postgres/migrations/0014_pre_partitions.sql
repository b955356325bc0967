-- A database that is created with this migration has partitions of `entry` and `body` from its
-- beginning (postgres_partitions.py); others get them by `forum db partition`.  Migrations after this
-- one must work with both: a partitioned table has no storage parameters of its own.

-- The scale factor of a tenth lets a table of 10^9 rows collect 10^8 dead ones, and an insert-only
-- table wait as long for its visibility map.  A fixed number keeps each vacuum small.
ALTER TABLE forum.entry SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);
ALTER TABLE forum.body SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);
ALTER TABLE forum.leaf SET (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);
ALTER TABLE forum.strand SET (
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_analyze_scale_factor = 0.02
);

-- Rows of these tables are changed or deleted soon after they were written, and the tables are read
-- many times a second.  A share of a table is reached the later the more runs wait; a fixed number
-- keeps each vacuum small.  The other tables have their numbers since 1, 2, 12 and 13.
ALTER TABLE forum.account SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000
);
ALTER TABLE forum.once SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000
);
ALTER TABLE forum.budget SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);
ALTER TABLE forum.interrupted SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);
-- A few rows that are changed all the time, by each worker twice a second and by each batch that is
-- sequenced.  With room in the page, a change touches no index.
ALTER TABLE forum.lease SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
ALTER TABLE forum.log SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
