"""Where jobs of a cluster are handed in and asked for: the program `gpuwork.jobs` in one of its nodes."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from gpuprov.core.errors import GpuprovError, TimedOut, Unreachable, UsageError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.units import parse_duration_s
from gpuprov.roles.work.job_answers import read_jobs, read_log_piece, read_shown, read_submitted
from gpuprov.roles.work.node_program import ANSWER_S, NodeProgram, NotEnded
from gpuprov.roles.work.work_place import controller_argv, jobs_of
from gpuprov.shapes.base import changed, encode
from gpuprov.shapes.cluster_spec import JobsSpec
from gpuprov.spec.job_order import fill_order
from gpuprov.spec.shared_folder import SHARED
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.roles.work.job_room import JobRoom
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.jobs import Job, JobLog, Jobs, JobsShown, JobSubmitted

SUBMIT_S: Final = 900.0  # 1 GiB is frozen, and 10,000 runs are ten commands of Slurm's
_CANCEL_S: Final = 60.0  # the program itself waits half as long
_OURS: Final = re.compile(r"python3 -m gpuwork\.jobs (?:list|(show|logs|cancel|rm|wait) ([0-9.]{1,20}))", re.ASCII)
_UNKNOWN: Final = re.compile(r"sacctmgr -i add user ([a-z][a-z0-9_-]{0,31}) account=people\Z", re.ASCII)
_ABOUT: Final = re.compile(r"\bgpuprov jobs(?: (?:show|logs|cancel|rm|wait|pull))?\b")


def _unknown() -> None:
    """Nobody can tell what nodes have."""


@contextmanager
def telling_where_to_look(cluster: str) -> Iterator[None]:
    """Have an error of the block that leaves open whether jobs were submitted say how to see it."""
    try:
        yield
    except (TimedOut, Unreachable) as error:
        fix = name_cluster("see whether it was submitted: gpuprov jobs", cluster)
        raise type(error)(error.what, evidence=error.evidence, fix=fix) from error


def _owner(job: Job) -> str:
    return job.submitter.owner if job.submitter else ""


@dataclass(frozen=True, kw_only=True)
class JobController(NodeProgram):
    """A node that takes jobs for its cluster.

    Attributes:
        defaults: What the cluster's spec has its jobs get; an error where that cannot be read.
        folder: Of the host, that its nodes share; empty for none.
        find_room: Tells what its nodes have for a job.
        people: Those who have jobs of their own, in other folders.
    """

    work: ClassVar[str] = "jobs"
    defaults: JobsSpec | SpecError = field(default_factory=JobsSpec)
    folder: str = ""
    find_room: Callable[[], JobRoom | None] = _unknown
    people: tuple[str, ...] = ()

    def argv(self, *arguments: str) -> list[str]:
        """With the folder of jobs."""
        return controller_argv(*arguments, person=self.runs_as)

    def runs_of(self, submission: str) -> str:
        """Where the nodes have the runs of a submission."""
        return f"{jobs_of(self.runs_as)}/{submission}/runs"

    def named(self, words: str) -> str:
        """Words with commands about jobs in them, with the cluster and whose jobs they are about."""
        return name_cluster(_ABOUT.sub(rf"\g<0> --as {self.person}", words) if self.person else words, self.cluster)

    def translated(self, fix: str) -> str | None:
        """Its verbs are those of `gpuprov jobs`, and its options those of `gpuprov submit`."""
        unknown = _UNKNOWN.search(fix)
        if unknown and unknown[1] in self.people:  # who is in the spec is given to Slurm's accounting from there
            return self.named("gpuprov cluster up")
        found = _OURS.fullmatch(fix)
        if found is None:
            return excerpt(fix, LINE) if fix.startswith("--") else None
        verb, job = found.groups()
        return self.named(f"gpuprov jobs {verb} {job}" if verb else "gpuprov jobs")

    def place_of(self, submission: str) -> str:
        """Where the folder of a submission is: on the host, or else in the nodes."""
        number = submission.partition(".")[0]
        folder = jobs_of(self.runs_as)
        inner = folder.removeprefix(f"{SHARED}/")
        return f"{self.folder}/{inner}/{number}" if self.folder else f"{folder}/{number} of the nodes"

    def submit(self, order: JobOrder, project: str | None) -> JobSubmitted:
        """Hand jobs in, with the cluster's defaults; they have their own copy of the project when this returns.

        Args:
            order: What is to be run.
            project: A folder in the node, which is removed then.

        Raises:
            SpecError: Nobody can tell what the defaults are.
            GpuprovError: It was refused, or it is unknown whether it was submitted.
        """
        asked = encode(changed(self.filled(order), project=project))
        with telling_where_to_look(self.cluster):
            return self.ask(
                lambda told: read_submitted(told, order.count),
                "submit",
                stdin=asked,
                limit_s=scaled_limit_s(SUBMIT_S),
                takes=[project] if project else [],
            )

    def accepted(self, order: JobOrder) -> JobOrder:
        """An order with the cluster's defaults, which fits a node; asked before anything is copied.

        Raises:
            SpecError: Nobody can tell what the defaults are.
            UsageError: No node has what it asks for.
        """
        filled, room = self.filled(order), self.find_room()
        if room is not None:
            room.require(filled)
        return filled

    def filled(self, order: JobOrder) -> JobOrder:
        """An order with the cluster's defaults; raises SpecError where nobody can tell what these are."""
        if isinstance(self.defaults, SpecError):
            raise self.defaults
        return fill_order(order, self.defaults)

    def list_jobs(self) -> Jobs:
        """All jobs, or those of the newest submissions; those of the person, where the user acts for one."""
        listed = self.ask(read_jobs, "list")
        if not (self.person and self.shares_account):
            return listed
        return changed(listed, jobs=tuple(job for job in listed.jobs if _owner(job) == self.person))

    def list_live(self) -> Jobs:
        """All jobs that run, and those that wait."""
        return self.ask(read_jobs, "list", "--live")

    def show(self, ids: Sequence[str]) -> JobsShown:
        """Some jobs, and what they belong to; raises UsageError for another one's than the person acted for."""
        shown = self.ask(read_shown, "show", *ids)
        other = next((job for job in shown.jobs if _owner(job) != self.person), None)
        if self.person and self.shares_account and other is not None:
            raise UsageError(
                f"job {other.submission} is not of {self.person}",
                evidence=f"it was submitted by {_owner(other) or 'nobody knows whom'}",
                fix=self.named("list theirs: gpuprov jobs"),
            )
        return shown

    def _require_own(self, ids: Sequence[str]) -> None:
        """Refuse jobs of others, where all jobs are in one folder."""
        if self.person and self.shares_account:
            self.show(ids)

    def describe_left(self, *ids: str) -> str:
        """What becomes of jobs that nobody waits for any more, and how to look at them and to end them."""
        try:
            jobs = self.show(ids).jobs
        except GpuprovError:
            jobs = ()
        waiting, running = (sum(one.state == state for one in jobs) for state in ("waiting", "running"))
        names, job, is_ = ", ".join(ids), " ".join(ids), "is" if len(ids) == 1 else "are"
        if waiting and running:
            left = f"{running} of {names}'s runs {'is' if running == 1 else 'are'} still running, and {waiting} waiting"
        elif jobs and not waiting and not running:
            return self.named(f"{names} {'has' if len(ids) == 1 else 'have'} ended: gpuprov jobs show {job}")
        else:
            left = f"{names} {f'{is_} still running' if running else f'{is_} waiting' if waiting else 'may go on'}"
        return self.named(f"{left}; to end it: gpuprov jobs cancel {job}; to look: gpuprov jobs show {job}")

    def read_log(self, job: str, start: int) -> JobLog:
        """A piece of a job's log."""
        if not start:
            self._require_own([job])
        return self.ask(lambda told: read_log_piece(told, job=job, start=start), "logs", job, "--from", str(start))

    def cancel(self, ids: Sequence[str]) -> tuple[Job, ...]:
        """End jobs; returns them when they have ended."""
        self._require_own(ids)
        return self.ask(read_jobs, "cancel", *ids, limit_s=_CANCEL_S + scaled_limit_s(ANSWER_S)).jobs

    def remove(self, ids: Sequence[str]) -> tuple[Job, ...]:
        """Remove submissions whose jobs have ended; returns these."""
        self._require_own(ids)
        return self.ask(read_jobs, "rm", *ids, limit_s=_CANCEL_S + scaled_limit_s(ANSWER_S)).jobs

    def tidy(self) -> tuple[Job, ...]:
        """Remove the submissions that ended longer ago than the cluster keeps them; returns their jobs."""
        keep = None if isinstance(self.defaults, SpecError) else self.defaults.keep
        if keep is None:
            return ()
        asked = ("tidy", "--keep", str(parse_duration_s(keep)))
        return self.ask(read_jobs, *asked, limit_s=_CANCEL_S + scaled_limit_s(ANSWER_S)).jobs

    def wait(self, ids: Sequence[str], *, limit_s: int) -> tuple[Job, ...] | None:
        """Jobs that have all ended; None where they had not when the time was over."""
        self._require_own(ids)
        try:
            whole_s = limit_s + scaled_limit_s(ANSWER_S)
            return self.ask(read_jobs, "wait", *ids, "--limit", str(limit_s), limit_s=whole_s).jobs
        except NotEnded:
            return None
