#!/bin/sh
# Run by slurmctld, as its account, when it has taken control.
echo $PPID >/var/lib/slurm/slurmctld/in-control

# A node answers before it has registered here, which can take 15 s. What starts on it until then gets no GPU, and a
# GPU counts as taken from then on (22.05). Such a job goes back to its queue; a change of partitions counts GPUs anew.
without_gpu() {
    scontrol --details --oneliner show job |
        sed -n 's/^JobId=\([0-9]*\) .* JobState=RUNNING .* GRES=[^ ]*:0(IDX:).*/\1/p'
}
daemon=$PPID
{
    requeued=
    for _ in $(seq 15); do
        sleep 2
        kill -0 "$daemon" || exit
        for job in $(without_gpu); do scontrol requeue "$job" && requeued="$requeued $job"; done
    done
    for job in $requeued; do scontrol update jobid="$job" starttime=now; done  # not two minutes later
    # srun's cannot go back. While one runs, a GPU counts as taken however often they are counted.
    until=$(($(date +%s) + 86400))
    while [ -n "$(without_gpu)" ]; do
        [ "$(date +%s)" -lt "$until" ] || exit
        kill -0 "$daemon" || exit
        sleep 30
    done
    kill -0 "$daemon" || exit
    scontrol create partitionname="{{ passing }}" hidden=yes state=down
    scontrol delete partitionname="{{ passing }}"
} >/dev/null 2>&1 </dev/null &
