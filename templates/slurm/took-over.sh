#!/bin/sh
# Run by slurmctld, as its account, when it has taken control.
echo $PPID >/var/lib/slurm/slurmctld/in-control
