#!/bin/sh
# Fetch all packages at once, before anything is installed: what a slow or broken mirror has given is there in the next
# run. This folder names the packages, and has a link to where they are kept, if that is not in the root itself.
set -eu
# mmdebstrap before 1.0 does not set this. It refuses to go on where packages are there, and fetches them itself.
[ -n "${MMDEBSTRAP_VERBOSITY:-}" ] || exit 0
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
here=${0%/*}
archives=$1/var/cache/apt/archives
mkdir -p "$archives"
kept=$archives
if [ -L "$here/kept" ]; then
    kept=$(readlink "$here/kept")
    # shellcheck disable=SC3013 # dash has -ef
    until [ "$kept" -ef /proc/self/fd/9 ]; do # who held the lock before may have removed the folder
        mkdir -p "$kept"
        if command exec 9<"$kept"; then flock 9; else [ ! -e "$kept" ]; fi
    done
fi
apt-get update --error-on=any
xargs apt-get --yes --download-only -o "Dir::Cache::archives=$kept" install '?essential' apt <"$here/packages"
if [ "$kept" != "$archives" ]; then
    cp --link "$kept"/*.deb "$archives" 2>/dev/null || cp "$kept"/*.deb "$archives"
fi
