"""What Slurm says of nodes and jobs, read from its commands: pure functions, but for whether a process still lives."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import accumulate

from gpuprov.core.process import describe_owner, is_gone
from gpuprov.roles.departure import Job
from gpuprov.spec.shared_folder import SHARED

FORMAT = "%N %T %v %u %E"
_UNREGISTERED = "N/A"  # Slurm's word for the version of a slurmd that has told it none
DRAINED = "drained by gpuprov; process "  # and which one: how a drain of ours is told from an administrator's
AWAY = "gpuprov: host "  # and which one is unreachable since when: a node that is DOWN because of us
_UNHEARD = "Not responding"  # Slurm's own word
STOPPED = "stopped by gpuprov"  # for a node that is unreachable; Slurm takes it back when it registers
STARTED = "running,completing,configuring,suspended,stopped,resizing,signaling,stage_out"
WAITING = "pending"
# Of `squeue --Format`: columns of a fixed width, so that no user's name for a job can be taken for another column.
_COLUMNS = (
    ("JobArrayID", 32),
    ("StateCompact", 4),
    ("BatchFlag", 2),
    ("AllocNodes", 64),  # the host on which it was submitted
    ("UserName", 32),
    ("NodeList", 160),
    ("Command", 40),
    ("Name", 40),
)
COLUMNS = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
_ENDS = tuple(accumulate(width for _, width in _COLUMNS))
_PLACES = tuple((name, slice(end - width, end)) for (name, width), end in zip(_COLUMNS, _ENDS, strict=True))
_INTERACTIVE = "0"
_COMPLETING = "CG"
# The controller's node may be hostile: what follows bounds what is shown and kept of its words.
_NODE = re.compile(r"\s*(\S{1,63})\s+([!-~]{1,32})\s+(\S{1,32})\s+(\S{1,64})(?!\S)(?:\s+(.{0,300}))?")
_MOST_NODES = 1024
_SUBMITTED = re.compile(rf"{SHARED}/jobs/([0-9]{{1,9}})/run\.sh [0-9]+", re.ASCII)  # what `submit` hands in
_STEP = re.compile(r"slurmstepd: \[([0-9]{1,10})\.", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class NodeWord:
    """A node, as the controller sees it.

    Attributes:
        state: Slurm's word, such as `idle` or `down*`.
        user: Who has set the reason.
        reason: Why it is not in service; `none` where it is.
        registered: Whether its slurmd has told the controller what the node has. One that answers before, which a
            backup beside the controller can delay by 15 s, is `idle` for Slurm, and a job gets no GPU there (22.05).
    """

    state: str
    user: str
    reason: str
    registered: bool = True

    @property
    def drained(self) -> bool:
        """Whether no new jobs start on it."""
        return "drain" in self.state

    @property
    def own(self) -> bool:
        """Whether this process drained it."""
        return self._holder == describe_owner(os.getpid())

    @property
    def abandoned(self) -> bool:
        """Whether a process drained it that was killed."""
        return bool(self._holder) and is_gone(self._holder)

    @property
    def kept(self) -> bool:
        """Whether somebody drained it: an administrator, or another run of gpuprov; not Slurm itself."""
        return self.drained and self.user != "slurm" and not (self.own or self.abandoned)

    @property
    def away(self) -> bool:
        """Whether gpuprov marked it DOWN because its host did not answer."""
        return self.state.startswith("down") and self.reason.startswith(AWAY)

    @property
    def unheard(self) -> bool:
        """Whether Slurm has marked it DOWN because it did not hear it. Slurm asks such a node again only rarely."""
        return self.state == "down*" and self.user == "slurm" and self.reason.startswith(_UNHEARD)

    @property
    def workless(self) -> bool:
        """Whether no job runs on it, and nobody but Slurm itself has a reason for it."""
        return self.state.removesuffix("*") in ("idle", "down") and (self.user in ("slurm", "Unknown") or self.away)

    @property
    def _holder(self) -> str:
        """The process of gpuprov that drained it; empty if none did."""
        return self.reason.removeprefix(DRAINED) if self.drained and self.reason.startswith(DRAINED) else ""


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job, and from where it was submitted.

    Attributes:
        client: The host on which its srun or salloc runs, without which it ends; empty for a batch job.
    """

    job: Job
    client: str


def parse_words(text: str) -> dict[str, NodeWord]:
    """Nodes by name, from `sinfo -N -o FORMAT`; of what somebody wrote over several lines, the first one."""
    words: dict[str, NodeWord] = {}
    for found in map(_NODE.match, text.splitlines()):
        if len(words) == _MOST_NODES:
            break
        if found:
            name, state, version, user, reason = found.groups(default="")
            word = NodeWord(state=state, user=user, reason=reason, registered=version != _UNREGISTERED)
            words.setdefault(name, word)
    return words


def away_reason(host: str, since: str) -> str:
    """Why nodes of a host are DOWN."""
    return f"{AWAY}{host} unreachable since {since}"


def drain_reason() -> str:
    """Why this process drains nodes."""
    return f"{DRAINED}{describe_owner(os.getpid())}"


def parse_jobs(text: str) -> tuple[QueuedJob, ...]:
    """Jobs from `squeue --Format COLUMNS`; the rest of a name that has line breaks is skipped."""
    entries = []
    for line in text.splitlines():
        if not line[:1].isdecimal():
            continue
        values = {name: line[place].strip() for name, place in _PLACES}
        if not values["StateCompact"].isalpha():
            continue
        ours = _SUBMITTED.fullmatch(values["Command"])
        job = Job(
            id=values["JobArrayID"],
            user=values["UserName"] or "?",
            name=f"{values['Name']}, job {ours[1]} of gpuprov" if ours else values["Name"],
            place=values["NodeList"],
            ending=values["StateCompact"] == _COMPLETING,
        )
        client = values["AllocNodes"] if values["BatchFlag"] == _INTERACTIVE else ""
        entries.append(QueuedJob(job=job, client=client))
    return tuple(entries)


def parse_steps(text: str, node: str) -> tuple[Job, ...]:
    """Jobs from the command lines of a node's slurmstepd processes: `slurmstepd: [17.batch]`."""
    return tuple(Job(id=number, place=node) for number in sorted(set(_STEP.findall(text))))
