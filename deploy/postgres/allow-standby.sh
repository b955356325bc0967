#!/bin/sh
# Lets a standby into a new primary, and has every commit wait until the standby has it on disk.
#
# The image of Postgres runs it once, when it makes the database.  ALTER SYSTEM counts from the next
# start on: the server that runs now has no standby, and would wait for ever.
set -eu
echo 'host replication all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
ALTER SYSTEM SET synchronous_standby_names = 'standby';
SELECT pg_create_physical_replication_slot('standby', true);
SQL
