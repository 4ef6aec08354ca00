#!/bin/sh
# What runs around Slurm's accounting: `make` while an image is built; and in the node of the controller, in this order,
# `database`, in place of the database's own start, and `before`, before slurmdbd starts, both as the account slurm;
# `enrol`, as root, once slurmdbd has; `wait` before slurmctld. `save`, as slurm, writes what is on record into `saved`,
# for another host. `why`, as root, says in a line what keeps them from starting. The figures are in a folder of the
# host, which is slurm's.
set -eu
umask 077
here=/usr/local/lib/slurm-accounting
folder=/var/lib/gpuprov-accounts
ready=/run/slurm-accounting-ready
cnf=$here/database.cnf

# Runs a command again until it succeeds, for so many tenths of a second.
until_done() {
    left=$1
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$((left -= 1))" -gt 0 ] || return 1
        sleep 0.1
    done
}

newest_alone() { # of files that begin with $1, the newest three stay
    # shellcheck disable=SC2012 # their names are these scripts' own
    ls -1t "$1"* 2>/dev/null | tail -n +4 | while read -r old; do rm -f "$old"; done
}

sql_version() { mariadbd --version | sed -n 's/.*Ver \([0-9.]*\).*/\1/p'; }
# Not by `slurmdbd -V`, which reads its configuration, and fails where the folder for archives is not there yet
# shellcheck disable=SC2016 # it is dpkg that puts the version there
dbd_version() { dpkg-query -W -f '${Version}\n' slurmdbd | sed 's/^[0-9]*://; s/[-+~].*//'; }
written_by() { cat "$folder/$1" 2>/dev/null || true; }

# Whether $1 is of a later release than $2, by their first two numbers: what it wrote, $2 cannot read.
is_later() {
    was=$(echo "$1" | cut -d. -f1,2) now=$(echo "$2" | cut -d. -f1,2)
    [ -n "$was" ] && [ "$was" != "$now" ] && [ "$(printf '%s\n%s\n' "$was" "$now" | sort -V | tail -n 1)" = "$was" ]
}

is_full() { [ "$(df --output=avail -k "$folder" | tail -n 1)" -lt 16384 ]; }

# What keeps the daemons from starting: a word, and the rest for people
why() {
    if ! mountpoint -q "$folder"; then
        echo "unmounted $folder is not mounted"
    elif is_later "$(written_by database-version)" "$(sql_version)"; then
        echo "newer its files are of MariaDB $(written_by database-version), and $(sql_version) is here"
    elif is_later "$(written_by slurmdbd-version)" "$(dbd_version)"; then
        echo "newer its figures are of slurmdbd $(written_by slurmdbd-version), and $(dbd_version) is here"
    elif is_full; then
        echo "full its disk has less than 16 MiB left"
    fi
}

# Ends this where it would change what a later release wrote, or has no folder or no room.
refuse() {
    reason=$(why)
    case $reason in ?*) echo "${reason#* }" >&2 && exit 1 ;; esac
}

# Ends slurmdbd before the disk is full: what it cannot write then, it drops, but what waits for it, slurmctld keeps.
guard() {
    while pgrep -x slurmdbd >/dev/null; do
        if is_full; then pkill -TERM -x slurmdbd || :; fi
        sleep 1
    done
}

# Slurm writes each message in two parts, and the kernel keeps the second back until the first is acknowledged, which
# takes 40 ms: a call of sacctmgr waits for a dozen of these. Where a node may not change its routes, it stays so.
acknowledge_at_once() {
    address=$(sed -n 's/^DbdAddr=//p' /etc/slurm/slurmdbd.conf)
    route=$(ip -4 route show table local 2>/dev/null | grep "^local $address dev " || :)
    # shellcheck disable=SC2086 # it is several words
    [ -z "$route" ] || ip route change table local $route quickack 1 2>/dev/null || :
}

case $1 in
make)
    place=$(mktemp -d)
    chown slurm:slurm "$place"
    runuser -u slurm -- mariadb-install-db --no-defaults --datadir="$place/db" --innodb-log-file-size=32M \
        --auth-root-authentication-method=socket --skip-test-db >/dev/null
    tar -czSf $here/empty.tar.gz --owner=0 --group=0 -C "$place/db" .
    chmod 0644 $here/empty.tar.gz
    rm -rf "$place"
    ;;
database)
    # On this node's own disk they would go with it
    refuse
    cd "$folder"
    mkdir -p archive copies
    if [ ! -d db ]; then
        rm -rf db.new
        mkdir db.new
        tar -xzf $here/empty.tar.gz -C db.new
        mv db.new db
        sql_version >database-version
    fi
    before=$(written_by database-version)
    now=$(sql_version)
    if [ "$before" != "$now" ]; then
        tar -czf copies/.next -C "$folder" db
        mv copies/.next "copies/files-of-mariadb-$before-$(date -u +%Y%m%dT%H%M%SZ).tar.gz"
        newest_alone copies/files-of-
        echo "$now" >database-version
    fi
    exec mariadbd --defaults-file=$cnf
    ;;
before)
    refuse
    until_done 200 mariadb-admin --defaults-file=$cnf ping || { echo "the database does not answer" >&2; exit 1; }
    if [ -e "$folder/restore.sql.gz" ]; then # from `save` on another host
        gzip -dc "$folder/restore.sql.gz" >"$folder/.restore"
        mariadb --defaults-file=$cnf slurm_acct_db <"$folder/.restore"
        # What ran or waited then has ended, and slurmdbd would say that it ended now
        cluster=$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)
        at=$(tr -cd 0-9 <"$folder/saved-at")
        mariadb --defaults-file=$cnf slurm_acct_db -e "
            update \`${cluster}_step_table\` set state=7, time_end=$at where time_end=0;
            update \`${cluster}_job_table\` set state=7, time_end=$at where time_end=0 and time_start>0;
            update \`${cluster}_job_table\` set state=4, time_end=$at where time_end=0;"
        rm -f "$folder/restore.sql.gz" "$folder/.restore"
    fi
    before=$(written_by slurmdbd-version)
    now=$(dbd_version)
    # slurmdbd changes the tables of an earlier one, and an earlier one cannot read them any more
    if [ -n "$before" ] && [ "$before" != "$now" ]; then
        mariadb-dump --defaults-file=$cnf --single-transaction --no-tablespaces slurm_acct_db >"$folder/copies/.next"
        gzip -f "$folder/copies/.next"
        mv "$folder/copies/.next.gz" "$folder/copies/dump-of-slurmdbd-$before-$(date -u +%Y%m%dT%H%M%SZ).sql.gz"
        newest_alone "$folder/copies/dump-of-"
    fi
    echo "$now" >"$folder/.version"
    mv "$folder/.version" "$folder/slurmdbd-version"
    ;;
enrol)
    acknowledge_at_once
    cluster=$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)
    until_done 200 sacctmgr -n show cluster || { echo "slurmdbd does not answer" >&2; exit 1; }
    [ -n "$(sacctmgr -nP show cluster "$cluster" format=cluster)" ] || sacctmgr -iQ add cluster "$cluster"
    # Before slurmctld, which is confused by entries that come while it reads them: "Can't find parent id 3 for assoc 4"
    if [ -z "$(sacctmgr -nP show assoc cluster="$cluster" user=work format=user)" ]; then
        sacctmgr -iQ add account work cluster="$cluster" description=work organization=work
        sacctmgr -iQ add user work cluster="$cluster" account=work
    fi
    : >$ready
    guard </dev/null >/dev/null 2>&1 &
    ;;
save)
    rm -rf "$folder/saved"
    mkdir "$folder/saved"
    mariadb-dump --defaults-file=$cnf --single-transaction --no-tablespaces slurm_acct_db >"$folder/saved/restore.sql"
    gzip "$folder/saved/restore.sql"
    date +%s >"$folder/saved/saved-at"
    cp "$folder/slurmdbd-version" "$folder/saved/"
    ;;
why) why ;;
wait)
    # Without what slurmdbd told it before, slurmctld does not start; with that, it goes on without slurmdbd
    [ -e "$(sed -n 's/^StateSaveLocation=//p' /etc/slurm/slurm.conf)/last_tres" ] || until_done 200 test -e $ready || :
    ;;
esac
