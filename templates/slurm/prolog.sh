#!/bin/sh
# Slurm runs this as root before a job has a node. Memory of a GPU that somebody else had, or nobody knows who, is
# overwritten; who has it is on record until the node starts again. Where that fails, the node is drained with the
# reason, and Slurm holds the job.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
kept=/run/gpuprov-scrubbed
fail() {
    scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=gpuprov: $1" || true
    echo "$1" >&2
    exit 1
}
[ -n "${SLURM_JOB_GPUS-}" ] || exit 0
unset NUMBA_ENABLE_CUDASIM
simulated=$(sed -n 's/^NUMBA_ENABLE_CUDASIM=//p' /etc/gpuprov/environment 2>/dev/null)
[ -z "$simulated" ] || export "NUMBA_ENABLE_CUDASIM=$simulated"
umask 077
{ mkdir -p "$kept" && cd /; } || fail "$kept cannot be made"
# Of a copy of a disk, or one of a while ago, it says nothing: others had the GPUs meanwhile.
started="$(cat /proc/sys/kernel/random/boot_id) $(sed 's/.*) //' /proc/1/stat | cut -d ' ' -f 20)"
if [ "$started" != "$(cat "$kept/started" 2>/dev/null)" ]; then
    { rm -f "$kept"/* && echo "$started" >"$kept/.started" && mv "$kept/.started" "$kept/started"; } ||
        fail "$kept cannot be written"
fi
for gpu in $(echo "$SLURM_JOB_GPUS" | tr , ' '); do
    case $gpu in *[!0-9]*) fail "GPU $gpu is none that a scrub knows" ;; esac
    last=$(cat "$kept/$gpu" 2>/dev/null)
    [ "$last" != "$SLURM_JOB_UID" ] || continue
    rm -f "$kept/$gpu"
    part=$(sed -n "s/^$gpu //p" /etc/slurm/gpu-units 2>/dev/null)
    said=$(CUDA_VISIBLE_DEVICES=${part:-$gpu} timeout -k 30 900 python3 -I -m smoke_kernels.scrub 2>&1)
    status=$?
    why=$(echo "$said" | tail -n 1 | tr -dc '[:alnum:] ._:;,/-' | cut -c 1-200)
    [ $status = 0 ] || fail "GPU $gpu was not scrubbed (status $status): $why"
    { echo "$SLURM_JOB_UID" >"$kept/.$gpu" && mv "$kept/.$gpu" "$kept/$gpu"; } || fail "$kept/$gpu cannot be written"
done
