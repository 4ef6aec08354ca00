"""sbatch, squeue and scancel as programs on PATH, which really run what is handed in, on this machine.

Only what `gpuwork.jobs` types is understood; anything else is an error, as a wrong option is for Slurm.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SBATCH_OPTION = re.compile(
    r"--(parsable|requeue|export=NONE|nodes=1|ntasks=1|open-mode=append|job-name=.+"
    r"|chdir=.+|output=.+|array=0-\d+(?:%\d+)?"
    r"|gres=gpu:\d+|time=\d+|mem=\d+M|dependency=afterany:\d+)"
)
MAX_ARRAY_SIZE = 1001
SLOTS = 8
FORMAT = "%F|%K|%T|%N|%r"
LOOK_S = 0.01


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
                program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {__file__} {folder} {name} "$@"\n')
                program.chmod(0o755)

    def hold(self) -> None:
        """Start nothing from now on."""
        (self.folder / "held").touch()

    def said_by(self, program: str, text: str, *, code: int = 0) -> None:
        """From now on a program says this, and does nothing."""
        (self.folder / f"{program}-says.json").write_text(json.dumps({"text": text, "code": code}))

    def obey(self, program: str) -> None:
        """Take the last back."""
        (self.folder / f"{program}-says.json").unlink()

    def typed(self, program: str) -> list[list[str]]:
        """How a program was called."""
        log = self.folder / f"{program}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def listed(self) -> dict[str, str]:
        """The tasks that wait or run."""
        found = {}
        for path in self.tasks.iterdir():
            with suppress(FileNotFoundError):
                found[path.name] = path.read_text().split()[0]
        return found

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
        for path in list(self.tasks.iterdir()):
            with suppress(OSError, IndexError, ValueError):
                for process in [int(path.read_text().split()[1]), *descendants(int(path.read_text().split()[1]))]:
                    os.kill(process, signal.SIGKILL)
            path.unlink(missing_ok=True)

    def run(self, program: str, arguments: list[str]) -> int:
        """What a program does."""
        with (self.folder / f"{program}.log").open("a") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.write(json.dumps(arguments) + "\n")
        with suppress(FileNotFoundError):
            told = json.loads((self.folder / f"{program}-says.json").read_text())
            (sys.stderr if told["code"] else sys.stdout).write(told["text"])
            return int(told["code"])
        return {"sbatch": self._sbatch, "squeue": self._squeue, "scancel": self._scancel}[program](arguments)

    def _sbatch(self, arguments: list[str]) -> int:
        options = [argument for argument in arguments if argument.startswith("--")]
        wrong = [option for option in options if not SBATCH_OPTION.fullmatch(option)]
        told = dict(option[2:].partition("=")[::2] for option in options)
        last, _, at_most = told["array"].removeprefix("0-").partition("%")
        if wrong or int(last) >= MAX_ARRAY_SIZE:
            sys.stderr.write(f"sbatch: error: {wrong or 'Invalid job array specification'}\n")
            return 1
        array = self._next_id()
        for index in range(int(last) + 1):
            self._put(f"{array}_{index}", "PENDING")
        after = told.get("dependency", "").rpartition(":")[2]
        script, *rest = arguments[len(options) :]
        if not (self.folder / "held").exists():
            _in_background(
                lambda: self._runner(array, int(last) + 1, int(at_most or SLOTS), (after, told, [script, *rest]))
            )
        sys.stdout.write(f"{array}\n")
        return 0

    def _next_id(self) -> int:
        with (self.folder / "id").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = int(file.read() or "100") + 1
            file.truncate(0)
            file.write(str(number))
        return number

    def _squeue(self, arguments: list[str]) -> int:
        if arguments != ["-h", "-r", "-u", str(os.geteuid()), "-o", FORMAT]:
            sys.stderr.write(f"squeue: error: {arguments}\n")
            return 1
        for task, state in self.listed().items():
            array, _, index = task.partition("_")
            node, reason = ("", "Resources") if state == "PENDING" else ("c001", "None")
            sys.stdout.write(f"{array}|{index}|{state}|{node}|{reason}\n")
        sys.stdout.write("7|N/A|RUNNING|c000|None\n")  # somebody's shell
        return 0

    def _scancel(self, arguments: list[str]) -> int:
        code = 0
        for wanted in arguments:
            found = [path for path in self.tasks.iterdir() if wanted in (path.name, path.name.partition("_")[0])]
            if not found:
                sys.stderr.write(f"scancel: error: Kill job error on job id {wanted}: Invalid job id specified\n")
                code = 1
            for path in found:
                with suppress(FileNotFoundError):
                    state, *pid = path.read_text().split()
                    if state == "PENDING":
                        path.unlink()
                    for process in [int(pid[0]), *descendants(int(pid[0]))] if pid else []:
                        with suppress(ProcessLookupError):
                            os.kill(process, signal.SIGTERM)
        return code

    def _runner(self, array: int, size: int, slots: int, task: tuple[str, dict[str, str], list[str]]) -> None:
        after, told, argv = task
        running: dict[int, subprocess.Popen[bytes]] = {}
        while after and any(name.startswith(f"{after}_") for name in self.listed()):
            time.sleep(LOOK_S)
        while left := [index for index in range(size) if (self.tasks / f"{array}_{index}").exists()]:
            for index in left:
                path = self.tasks / f"{array}_{index}"
                if index in running and running[index].poll() is not None:
                    with suppress(ProcessLookupError):  # as Slurm does once the script has ended
                        os.killpg(running.pop(index).pid, signal.SIGKILL)
                    requeue = self.folder / f"requeue-{array}_{index}"
                    if requeue.exists():
                        requeue.unlink()
                        self._put(path.name, "PENDING")
                    else:
                        path.unlink(missing_ok=True)
                elif index not in running and len(running) < slots and not (self.folder / "held").exists():
                    running[index] = self._start(array, index, told, argv)
                    self._put(path.name, f"RUNNING {running[index].pid}")
            time.sleep(LOOK_S)

    def _put(self, task: str, text: str) -> None:
        """A task's file, which the other programs see whole or not at all."""
        part = self.folder / f"part-{task}"
        part.write_text(text)
        part.rename(self.tasks / task)

    def _start(self, array: int, index: int, told: dict[str, str], argv: list[str]) -> subprocess.Popen[bytes]:
        path = f"{self.programs}:/usr/bin:/bin"
        env = {"PATH": path, "SLURM_ARRAY_JOB_ID": str(array), "SLURM_ARRAY_TASK_ID": str(index)}
        if "gres" in told:
            env["CUDA_VISIBLE_DEVICES"] = "0"
        output = told["output"].replace("%A", str(array)).replace("%a", str(index))
        with open(output, "ab") as file:  # noqa: PTH123
            return subprocess.Popen(
                ["/bin/sh", *argv], cwd=told["chdir"], env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, by parent."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def _in_background(work: object) -> None:
    """In a process that nobody waits for, and that holds nothing of this one's."""
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nothing, handle)
    try:
        work()  # type: ignore[operator]
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(SlurmCommands(Path(sys.argv[1])).run(sys.argv[2], sys.argv[3:]))
