"""How Slurm is told of runs, and asked for them.

All runs are array tasks, also a single one. An array has at most `CHUNK` of them: with Slurm's default MaxArraySize of
1001 their numbers are 0 to 1000.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from msgspec import UNSET

from gpuprov.shapes.job_run import Chunk
from gpuprov.shapes.limits import MIB
from gpuwork.errors import SlurmError
from gpuwork.jobs.batch import Queued
from gpuwork.jobs.command import ask
from gpuwork.jobs.following import require_earlier
from gpuwork.jobs.slurm_ends import CancelledTasks
from gpuwork.jobs.slurm_refusal import refused_for_good
from gpuwork.jobs.store import CHUNK, SCRIPT, SLURM, chunks_of
from gpuwork.program import program_argv
from gpuwork.record import end_of_log
from gpuwork.shared_folder import write_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.job_run import System
    from gpuwork.jobs.batch import Find, Tell
    from gpuwork.jobs.store import Submission

SUBMIT_S: Final = 60.0
ANSWER_S: Final = 30.0
_MINUTE_S: Final = 60
_IS_FULL: Final = "temporarily unable to accept job"  # sbatch then tries again and again
_FORMAT: Final = "%F|%K|%T|%N|%r"
_LINE: Final = re.compile(r"([0-9]{1,10})\|([0-9]{1,7}|N/A)\|([A-Z_]{1,30})\|([^|]{0,200})\|([^|]{0,500})")
_SUBMITTED: Final = re.compile(r"([1-9][0-9]{0,9})(;[^\s;]{1,100})?\n?")
_WAITING: Final = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_ENDED: Final = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED"}
    | {"TIMEOUT"}
)

Task = tuple[int, int]


class Slurm:
    """Slurm as a batch system, by its commands."""

    name: System = "slurm"

    def __init__(self) -> None:
        """Nothing has been asked yet."""
        self._cancelled = CancelledTasks()

    def find_faults(self, order: JobOrder) -> Iterator[Fault]:  # noqa: ARG002
        """None: Slurm itself refuses what the cluster does not have."""
        return iter(())

    def prepare(self, order: JobOrder, folder: Path) -> None:  # noqa: ARG002
        """What Slurm starts, and a folder for what that says."""
        (folder / SLURM).mkdir()
        write_file(folder / SCRIPT, render_run_script(folder))

    def begin(self, order: JobOrder, folder: Path, *, tell: Tell) -> None:
        """Hand all runs in, as few arrays.

        Raises:
            Refused: It takes no such runs; it has the arrays that were told of.
            SlurmError: It does not answer, or takes no more; it may have one array more.
        """
        after = None
        earlier = [
            chunk.slurm for one in require_earlier(folder.parent, order, system=self.name) for chunk in one.told.chunks
        ]
        for first, size in chunks_of(order.runs, CHUNK):
            argv = sbatch_argv(order, folder, (first, size), after=after, earlier=earlier)
            try:
                said = ask(argv, limit_s=SUBMIT_S)
            except SlurmError as error:
                if _IS_FULL in error.evidence:
                    raise _full(order) from error
                refused = refused_for_good(error, order)
                if refused is not None:
                    raise refused from error
                raise
            chunk = Chunk(slurm=_parse_submitted(said), first=first, size=size)
            tell(chunk)
            after = chunk.slurm if order.at_most else None

    def withdraw(self, chunks: Sequence[Chunk]) -> None:
        """Cancel arrays, as far as Slurm answers."""
        if chunks:
            with suppress(SlurmError):  # its runs find no `submitted.json`, and end
                cancel_tasks(str(chunk.slurm) for chunk in chunks)

    def look(self) -> Find:
        """One call of squeue."""
        queue = read_queue(os.geteuid())
        return lambda submission, number: find_run(queue, submission.told.chunks, number)

    def cancel(self, asked: Sequence[tuple[Submission, int | None]]) -> None:
        """One call of scancel, if there is anything to cancel."""
        wanted = _tasks_left(asked)
        if wanted:
            try:
                cancel_tasks(wanted)
            except SlurmError:  # of a task that has ended meanwhile it says that there is none
                if _tasks_left(asked):
                    raise

    def find_cancelled(self, submission: Submission, begun: Collection[int]) -> frozenset[int]:
        """Those that `scancel` ended."""
        return self._cancelled.of(submission.told.chunks, begun)

    def last_words(self, submission: Submission, number: int) -> str | None:
        """The last words of the program around a run."""
        array, index = place_of(submission.told.chunks, number)
        return end_of_log(submission.folder / SLURM / f"{array}_{index}.txt") or None


def render_run_script(folder: Path) -> str:
    """What Slurm runs for a task; its argument is the number of the array's first run.

    It begins a run again whose `one` was killed, alone or by a lack of memory; `one` counts, and gives up.
    """
    one = " ".join(_quoted(word) for word in program_argv("gpuwork.jobs.one", str(folder), isolated=True))
    return (
        "#!/bin/sh\n"
        "trap : TERM INT HUP  # `one` gets the signal too, and ends the run\n"
        "for begin in $(seq 200); do\n"
        f'    {one} "$(($1 + SLURM_ARRAY_TASK_ID))"\n'
        "    status=$?\n"
        '    [ "$status" -eq 137 ] || exit "$status"\n'
        "done\n"
        'exit "$status"\n'
    )


def sbatch_argv(
    order: JobOrder, folder: Path, chunk: tuple[int, int], *, after: int | None, earlier: Sequence[int] = ()
) -> list[str]:
    """The command that hands an array in.

    Args:
        order: What is to be run.
        folder: Of the submission.
        chunk: The number of the first run, and how many.
        after: The array that has to end before this one begins, so that no more runs than `at_most` are under way.
        earlier: The arrays of which all tasks have to succeed before; Slurm drops this one if they do not.
    """
    first, size = chunk
    at_most = f"%{order.at_most}" if order.at_most else ""
    argv = ["sbatch", "--parsable", "--requeue", "--export=NONE", "--nodes=1", "--ntasks=1", "--open-mode=append"]
    argv += [f"--job-name={order.title}", f"--chdir={folder}", f"--output={folder / SLURM}/%A_%a.txt"]
    argv += [f"--array=0-{size - 1}{at_most}"]
    if order.partition is not UNSET:
        argv += [f"--partition={order.partition}"]
    if order.qos is not UNSET:
        argv += [f"--qos={order.qos}"]
    if order.shards is not UNSET:
        argv += [f"--gres=shard:{order.shards}"]
    elif order.gpus:
        type_ = "" if order.gpu_type is UNSET else f"{order.gpu_type}:"
        argv += [f"--gres=gpu:{type_}{order.gpus}"]
    if order.time_limit_s is not None:  # `one` ends each try; Slurm, what is left a minute later (OverTimeLimit)
        argv += [f"--time={-(-order.time_limit_s * (order.retries + 1) // _MINUTE_S)}"]
    if order.memory_bytes is not None:
        argv += [f"--mem={-(-order.memory_bytes // MIB)}M"]
    conditions = [":".join(("afterok", *map(str, earlier)))] if earlier else []
    conditions += [f"afterany:{after}"] if after is not None else []
    if conditions:
        argv += [f"--dependency={','.join(conditions)}"]
    if earlier:
        argv += ["--kill-on-invalid-dep=yes"]
    return [*argv, str(folder / SCRIPT), str(first)]


def read_queue(user: int) -> dict[Task, Queued]:
    """What waits or runs for an account, by array and number within it.

    Raises:
        SlurmError: Slurm does not answer, or says what cannot be read.
    """
    return parse_queue(ask(["squeue", "-h", "-r", "-u", str(user), "-o", _FORMAT], limit_s=ANSWER_S))


def parse_queue(said: str) -> dict[Task, Queued]:
    """The tasks among what squeue lists; a job that is no array is none of ours.

    Raises:
        SlurmError: A line is not as it was asked for.
    """
    tasks: dict[Task, Queued] = {}
    for line in said.split("\n"):
        match = _LINE.fullmatch(line)
        if line and (match is None or not line.isprintable()):
            raise SlurmError(
                "the output of squeue cannot be read",
                evidence=ascii(line)[:200],
                fix=f'squeue -h -r -o "{_FORMAT}"',
            )
        if match and match[2] != "N/A" and match[3] not in _ENDED:
            state: Literal["waiting", "running"] = "waiting" if match[3] in _WAITING else "running"
            reason = None if match[5] in ("", "None") else match[5]
            tasks[int(match[1]), int(match[2])] = Queued(state=state, node=match[4] or None, reason=reason)
    return tasks


def place_of(chunks: Sequence[Chunk], number: int) -> Task:
    """The array that has a run, and the run's number within it."""
    chunk = chunks[number // chunks[0].size]
    return chunk.slurm, number - chunk.first


def find_run(queue: Mapping[Task, Queued], chunks: Sequence[Chunk], number: int) -> Queued | None:
    """What Slurm says of a run."""
    return queue.get(place_of(chunks, number))


def find_tasks(queue: Mapping[Task, Queued], chunks: Sequence[Chunk], number: int | None) -> list[str]:
    """What Slurm has of a run, or of all runs, as `cancel_tasks` takes it."""
    if number is None:
        there = {array for array, _ in queue}
        return [str(chunk.slurm) for chunk in chunks if chunk.slurm in there]
    return [] if find_run(queue, chunks, number) is None else ["{}_{}".format(*place_of(chunks, number))]


def cancel_tasks(ids: Iterable[str]) -> None:
    """End tasks (`17_3`) and whole arrays (`17`).

    Raises:
        SlurmError: Slurm does not answer, or refused.
    """
    ask(["scancel", *ids], limit_s=ANSWER_S)


def _full(order: JobOrder) -> SlurmError:
    return SlurmError(
        f"Slurm has no room for {order.runs:,} more jobs; nothing was submitted",
        evidence="it holds at most MaxJobCount jobs, with those that ended within MinJobAge",
        fix="scontrol show config | grep -E 'MaxJobCount|MinJobAge'; squeue | wc -l",
    )


def _tasks_left(asked: Sequence[tuple[Submission, int | None]]) -> list[str]:
    """What Slurm still has of submissions, or of one run of each."""
    queue = read_queue(os.geteuid())
    return sorted({task for submission, number in asked for task in find_tasks(queue, submission.told.chunks, number)})


def _parse_submitted(said: str) -> int:
    match = _SUBMITTED.fullmatch(said)
    if match is None:
        raise SlurmError("sbatch printed no job id", evidence=ascii(said)[:200], fix="squeue")
    return int(match[1])


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
