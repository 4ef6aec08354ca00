#!/bin/sh
# Slurm runs this before each task, and does with the task's environment what this prints.
# A variable of the node that the task has not: sbatch and srun bring those of whoever typed them.
if [ -r /etc/gpuprov/environment ]; then
    while IFS= read -r line || [ -n "$line" ]; do
        # A line that an administrator added may be anything, and Slurm cuts those of 4 KiB in two.
        case ${line%%=*} in "$line" | "" | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        [ ${#line} -le 4000 ] || continue
        eval "[ -n \"\${${line%%=*}+set}\" ]" || printf 'export %s\n' "$line"
    done </etc/gpuprov/environment
fi
# Slurm numbers GPUs type by type, and CUDA otherwise; parts of GPUs CUDA knows by their UUIDs alone.
units=/etc/slurm/gpu-units
case ${CUDA_VISIBLE_DEVICES-} in
"" | *[!0-9,]*) ;;
*)
    [ ! -s "$units" ] || printf 'export CUDA_VISIBLE_DEVICES=%s\n' "$(
        echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' | while read -r number; do sed -n "s/^$number //p" "$units"; done |
            paste -s -d ,
    )"
    ;;
esac
# Slurm sets the first of these for a job or step that has a GPU, and takes it away from any other, whoever set it. One
# without a GPU finds none. Programs heed variables if they like: this is no fence.
[ -n "${CUDA_VISIBLE_DEVICES-}" ] || cat <<'END'
export CUDA_VISIBLE_DEVICES=NoDevFiles
export NVIDIA_VISIBLE_DEVICES=void
unset NUMBA_ENABLE_CUDASIM
END
# Slurm gives a task the lowest score by which the kernel chooses what to end where memory runs out, and the node's
# services would end before it. Nobody but root can raise that until the task has begun, so something beside it waits,
# for five seconds at most. In a session of its own: Slurm ends the others with this.
# shellcheck disable=SC2016 # it is the other shell that expands them
[ -z "${SLURM_TASK_PID-}" ] || setsid sh -c '
    raise() { for one; do echo 900 >"/proc/$one/oom_score_adj" && raise $(cat "/proc/$one/task/"*/children); done; }
    n=0
    until raise "$1" || [ ! -e "/proc/$1" ] || [ $((n += 1)) -gt 250 ]; do sleep 0.02; done &
' sh "$SLURM_TASK_PID" </dev/null >/dev/null 2>&1
