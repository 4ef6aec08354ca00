#!/bin/sh
# On the controller, before its daemon restarts: no more jobs start, and those that are starting have reached their
# nodes. A start that slurmctld has decided on and not sent is lost with it, and the job seems to run, though none does.
# The partitions are up again once slurmctld has read its configuration. If no job has begun in the last seconds, then
# what slurmctld is sending is no start: it may be asking a node that has been stopped, which takes it up to 10 s.
scontrol ping >/dev/null 2>&1 || exit 0
for partition in $(sinfo -h -o %R | sort -u); do
    scontrol update partitionname="$partition" state=down
done
for _ in $(seq 50); do
    began=$(squeue -h -t running,configuring -o %M) && ! echo "$began" | grep -q '^0:0[0-4]$' && exit 0
    said=$(sdiag) && ! echo "$said" | grep -Eq '^Agent (queue size|count): *[1-9]' && exit 0
    sleep 0.1
done
