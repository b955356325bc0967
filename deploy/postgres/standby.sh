#!/bin/sh
# standby.sh HOST: a standby of that primary; copies it at the first start, then follows it.
#
# The slot makes the primary keep what the standby has not read, so it can be away for a while.
# Watch the disk of the primary meanwhile; drop the slot if the standby does not come back.
set -eu
host=$1
PGPASSWORD=$(cat "$PASSWORD_FILE")
export PGPASSWORD
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # A copy that was broken off has no PG_VERSION at its end, and is made anew.
    rm -rf "${PGDATA:?}.partial"
    pg_basebackup --dbname="host=$host user=forum application_name=standby" --slot=standby \
        --pgdata="$PGDATA.partial" --wal-method=stream --write-recovery-conf
    chmod 0700 "$PGDATA.partial"
    mv "$PGDATA.partial" "$PGDATA"
fi
exec postgres -D "$PGDATA"
