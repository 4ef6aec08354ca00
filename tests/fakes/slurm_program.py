"""What sbatch, squeue and scancel do here.

They are started thousands of times: what needs more than `os` is imported where it is needed.

Only what `gpuwork.jobs` types is understood; anything else is an error, as a wrong option is for Slurm. The state is in
a folder: `tasks` has a file for each task that waits or runs.
"""

from __future__ import annotations

import fcntl
import os
import sys

MAX_ARRAY_SIZE = 1001
SLOTS = 8
FORMAT = "%F|%K|%T|%N|%r"


def main(folder: str, program: str, arguments: list[str]) -> int:
    """What a program does; its exit code."""
    with open(f"{folder}/{program}.log", "a", encoding="utf-8") as log:  # noqa: PTH123
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(f"{arguments!r}\n")
    said = _read(f"{folder}/{program}-says")
    if said is not None:
        code, _, text = said.partition("\n")
        (sys.stderr if int(code) else sys.stdout).write(text)
        return int(code)
    if program == "squeue" and arguments[:6] == ["-h", "-r", "-t", "CANCELLED", "-j", arguments[-3]]:
        arrays = arguments[-3].split(",")
        ended = (_read(f"{folder}/cancelled") or "").split()
        sys.stdout.write("".join(f"{task}|CANCELLED\n" for task in ended if task.partition("_")[0] in arrays))
        return 0
    if program == "squeue":  # slurm_commands.py has what it answers where it understands
        sys.stderr.write(f"squeue: error: {arguments}\n")
        return 1
    return {"sbatch": _sbatch, "scancel": _scancel}[program](folder, arguments)


def put(folder: str, task: str, text: str) -> None:
    """A task's file, which the other programs see whole or not at all."""
    part = f"{folder}/part-{task}"
    with open(part, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    os.rename(part, f"{folder}/tasks/{task}")  # noqa: PTH104


def listed(folder: str) -> dict[str, list[str]]:
    """The tasks that wait or run: the state of each, and its process."""
    found = {name: _read(f"{folder}/tasks/{name}") for name in os.listdir(f"{folder}/tasks")}  # noqa: PTH208
    return {name: text.split() for name, text in found.items() if text}


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, by parent."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        stat = _read(f"/proc/{name}/stat") if name.isdecimal() else None
        if stat:
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return


def _read(path: str) -> str | None:
    """The text of a file; None where there is none, or no longer."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _sbatch(folder: str, arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("--")]
    told = dict(option[2:].partition("=")[::2] for option in options)
    last, _, at_most = told["array"].removeprefix("0-").partition("%")
    wrong = _find_wrong(options)
    if wrong or int(last) >= MAX_ARRAY_SIZE:
        sys.stderr.write(f"sbatch: error: {wrong or 'Invalid job array specification'}\n")
        return 1
    array = _next_id(folder)
    for index in range(int(last) + 1):
        put(folder, f"{array}_{index}", "PENDING")
    if not os.path.exists(f"{folder}/held"):  # noqa: PTH110
        from tests.fakes.slurm_runner import Runner, in_background

        argv = arguments[len(options) :]
        in_background(Runner(folder, array, int(last) + 1, told, argv, int(at_most or SLOTS)))
    sys.stdout.write(f"{array}\n")
    return 0


def _find_wrong(options: list[str]) -> list[str]:
    """The options that Slurm does not have, or that nobody has needed yet."""
    import re

    known = re.compile(
        r"--(parsable|requeue|export=NONE|nodes=1|ntasks=1|open-mode=append|job-name=.+"
        r"|chdir=.+|output=.+|array=0-\d+(?:%\d+)?"
        r"|gres=gpu:(?:[a-z0-9.]+:)?\d+|time=\d+|mem=\d+M|dependency=(?:afterok:[\d:]+,?)?(?:afterany:\d+)?|kill-on-invalid-dep=yes)"
    )
    return [option for option in options if not known.fullmatch(option)]


def _next_id(folder: str) -> int:
    with open(f"{folder}/id", "a+", encoding="utf-8") as file:  # noqa: PTH123
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or "100") + 1
        file.truncate(0)
        file.write(str(number))
    return number


def _scancel(folder: str, arguments: list[str]) -> int:
    code = 0
    for wanted in arguments:
        found = {name: words for name, words in listed(folder).items() if wanted in (name, name.partition("_")[0])}
        if not found:
            sys.stderr.write(f"scancel: error: Kill job error on job id {wanted}: Invalid job id specified\n")
            code = 1
        for name, (state, *pid) in found.items():
            if state == "PENDING":
                remove(f"{folder}/tasks/{name}")
                with open(f"{folder}/cancelled", "a", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(f"{name}\n")
            for process in [int(pid[0]), *descendants(int(pid[0]))] if pid else []:
                _end(process)
    return code


def _end(pid: int) -> None:
    import signal

    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
