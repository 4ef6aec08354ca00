"""What `verify` asks Slurm in a node, for roles/slurm/checks.py to judge."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from gpuprov.roles.leftovers import ask_left
from gpuprov.roles.slurm.facts import ACCOUNTING_SCRIPT, slurm_path
from gpuprov.verify.request import SIMULATION

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation

# The node may be in none of the partitions that a job gets that names none
_JOB = (
    "sh",
    "-c",
    'exec srun --partition="$(sinfo -h -n "$0" -o %R | paste -s -d ,)" --nodelist="$0" "$@"',
)
# In the node with slurmdbd, and in a backup that has taken over: whether it answers, why not as far as the node knows,
# and how much waits for it
ACCOUNTING = f"""\
if [ ! -e {slurm_path("slurmdbd")} ]; then
    host=$(sed -n 's/^AccountingStorageHost=//p' {slurm_path("folder")}/slurm.conf)
    [ -n "$host" ] && [ -e {slurm_path("controller_mark")} ] &&
        scontrol ping 2>/dev/null | grep -q '(primary).* is DOWN' || {{ echo elsewhere; exit; }}
fi
if sacctmgr --noheader show cluster >/dev/null 2>&1; then
    echo answers
else
    echo silent
    [ -e {slurm_path("slurmdbd")} ] || echo "why elsewhere it is on the node with the address $host"
fi
[ ! -e {slurm_path("slurmdbd")} ] || printf 'why %s\\n' "$(sh {ACCOUNTING_SCRIPT} why 2>/dev/null)"
sdiag 2>/dev/null | sed -n 's/^DBD Agent queue size: */queue /p'
"""
VERIFY_JOB = "gpuprov-verify"
_OPTIONS = ("--immediate=5", "--quiet", f"--job-name={VERIFY_JOB}", "-n1", "-N1")


def ask_slurm(expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, object]]:
    """The controller's line about the node, a job that holds its GPUs and says what it sees, and what jobs left.

    In the controller's node, also whether its accounting works.
    """
    gres = [f"--gres=gpu:{expected.gpu_count}"] if expected.gpu_paths else []
    job = [*_JOB, expected.node, *_OPTIONS, *gres, "python3", "-I", "-c", job_program(), SIMULATION]
    show = ["scontrol", "--oneliner", "show", "node", expected.node]
    left = ask_left("SLURM_JOB_ID", running=f"squeue -h -o %A -t R,S,CF,CG -w {expected.node}", timeout_s=timeout_s)
    asks = (("show", show), ("job", job), ("accounting", ["sh", "-c", ACCOUNTING]))
    asked = {name: {"argv": argv, "timeout_s": timeout_s} for name, argv in asks}
    return {**asked, "left": left}


def job_program() -> str:
    """For `python3 -c` inside a Slurm job, with the simulation as the one argument."""
    return (resources.files("gpuprov.roles.slurm") / "job.py").read_text(encoding="utf-8")
