"""sbatch, squeue and scancel as programs on PATH, which really run what is handed in, on this machine."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from ast import literal_eval
from contextlib import suppress
from pathlib import Path

import msgspec

from tests.fakes.slurm_program import FORMAT, descendants, listed

ROOT = Path(__file__).parents[2]
PACKAGES = Path(msgspec.__file__).parents[1]  # without `site`, which takes longer than the rest
START = (
    f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(PACKAGES)!r}]; from tests.fakes.slurm_program import main; "
    "sys.exit(main(*sys.argv[1:3], sys.argv[3:]))"
)
# squeue is called most: a shell starts in a fourth of the time that Python takes. Other words are Python's to refuse.
ASKED = ["-h", "-r", "-u", str(os.geteuid()), "-o", FORMAT]
QUICK_SQUEUE = f"""
if [ "$*" = {shlex.quote(" ".join(ASKED))} ] && [ ! -e "$folder/squeue-says" ]; then
    echo {shlex.quote(repr(ASKED))} >> "$folder/squeue.log"
    for task in "$folder"/tasks/*; do
        name=${{task##*/}} state=
        {{ read -r state pid < "$task"; }} 2>/dev/null
        case $state in
            "") ;;
            PENDING) echo "${{name%_*}}|${{name#*_}}|$state||Resources" ;;
            *) echo "${{name%_*}}|${{name#*_}}|$state|c001|None" ;;
        esac
    done
    echo "7|N/A|RUNNING|c000|None"  # somebody's shell
    exit
fi"""


class SlurmCommands:
    """The stand-in, with its state in a folder: a file for each task that waits or runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.tasks = folder / "tasks"
        self.programs = folder / "programs"  # of nodes, for jobs alone
        for path in (self.bin, self.tasks, self.programs):
            path.mkdir(parents=True, exist_ok=True)
        for name in ("sbatch", "squeue", "scancel"):
            program = self.bin / name
            if not program.exists():
                words = shlex.join([sys.executable, "-S", "-E", "-c", START, str(folder), name])
                quick = f"folder={shlex.quote(str(folder))}{QUICK_SQUEUE}" if name == "squeue" else ""
                program.write_text(f'#!/bin/sh\n{quick}\nexec {words} "$@"\n')
                program.chmod(0o755)

    def hold(self) -> None:
        """Start nothing from now on."""
        (self.folder / "held").touch()

    def said_by(self, program: str, text: str, *, code: int = 0) -> None:
        """From now on a program says this, and does nothing."""
        (self.folder / f"{program}-says").write_text(f"{code}\n{text}")

    def obey(self, program: str) -> None:
        """Take the last back."""
        (self.folder / f"{program}-says").unlink()

    def typed(self, program: str) -> list[list[str]]:
        """How a program was called."""
        log = self.folder / f"{program}.log"
        return [literal_eval(line) for line in log.read_text().splitlines()] if log.exists() else []

    def listed(self) -> dict[str, str]:
        """The tasks that wait or run, and the state of each."""
        return {task: words[0] for task, words in listed(str(self.folder)).items()}

    def fail_node(self, task: str) -> None:
        """The node of a task is gone at once, with all its processes; the task waits again."""
        pid = int((self.tasks / task).read_text().split()[1])
        (self.folder / f"requeue-{task}").touch()
        for process in [pid, *descendants(pid)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def finish(self) -> None:
        """Nothing lives on after a test."""
        self.hold()
        for task, (_, *pid) in listed(str(self.folder)).items():
            for process in [int(pid[0]), *descendants(int(pid[0]))] if pid else []:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            (self.tasks / task).unlink(missing_ok=True)
