#!/bin/sh
# mmdebstrap leaves the names and resolvers of this machine behind, and packages make keys, which would be the same in
# every node. The daemons of the roles' packages do not run in the builder: the roles enable those that nodes need.
set -eu
cd "$1/etc"
rm -f hostname resolv.conf ssh/ssh_host_* munge/munge.key systemd/system/multi-user.target.wants/*.service
: >machine-id
