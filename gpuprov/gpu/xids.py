"""What an Xid asks for, and which ones still stand: pure functions over what the kernel's log says.

The classes are data (xids.json), with their source and date.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Action = Literal["ignore", "restart-program", "test-gpu", "reset-gpu", "restart-host", "inspect"]
OF_THE_GPU: Final = ("reset-gpu", "restart-host", "inspect")
OFTEN: Final = 5  # resets of one GPU within a day that say that another one will not help
_DAY_S: Final = 86_400.0
_ONE_JOB_S: Final = 60.0  # what is left of a job after one of its processes has failed has ended by then
_MOST_REPORTS: Final = 500
_PROCESS = re.compile(r": \d+, pid='?(?P<pid>\d+)'?, name=(?P<name>[^,]+)")
_SEVERITY = re.compile(r"\b(?P<non>non-?)?fatal\b", re.IGNORECASE)
# Drivers word the actions differently: to 0x2 (Node Reboot Required), to 0x2 (OS Reboot)
_CHANGED = re.compile(r"changed from .*\bto (?P<number>0x[0-9a-fA-F]+)?\W*(?P<words>[^)]*)")


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One error that the driver reported.

    Attributes:
        number: Of the kind of error.
        pci: The GPU, as the driver writes it, in lower case.
        text: The line without its time.
        seconds: Since the machine was booted; None where the line does not say.
    """

    number: int
    pci: str
    text: str
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An Xid that nothing has cured since, how often it was reported on that GPU, and what it asks for.

    Attributes:
        returned: Whether reboots have not cured it, so that one more will not either.
    """

    xid: Xid
    count: int
    action: Action
    returned: bool = False


def action_of(number: int, text: str | None = None) -> Action:
    """What an Xid asks for; one that is not in the catalogue asks for a person.

    Args:
        number: Of the Xid.
        text: Its line, which matters to Xid 154 and to those of links, of which it says whether they are fatal; None
            where it is not known: then what 154 goes with says it.
    """
    table = load_actions()
    said = table["says-itself"]
    if number == said["number"]:
        if text is None:
            return "ignore"
        return _action_in_words(text, said)
    graded = table["by-severity"]
    if number in graded["numbers"] and (word := _SEVERITY.search(text or "")):
        graver: Action = graded["nonfatal" if word["non"] else "fatal"]
        return graver
    known: Mapping[Action, Sequence[int]] = table["actions"]
    return next((action for action, numbers in known.items() if number in numbers), "inspect")


def _action_in_words(text: str, said: Mapping[str, Any]) -> Action:
    """What Xid 154 says: by its number, which is NVML's recovery action, else by its words."""
    changed = _CHANGED.search(text)
    if changed is None:
        return "inspect"
    by_words: Action = said["by-words"].get(changed["words"].strip(), "inspect")
    number = changed["number"]
    action: Action = said["by-number"].get(str(int(number, 16)), by_words) if number else by_words
    return action


def is_known(number: int) -> bool:
    """Whether the table says what this Xid asks for."""
    table = load_actions()
    return number == table["says-itself"]["number"] or any(number in numbers for numbers in table["actions"].values())


def list_beyond_reset(model: str, *, mig: bool) -> tuple[int, ...]:
    """Xids that ask for a reboot on GPUs of this model, where others need a reset.

    Args:
        model: As NVML names it.
        mig: Whether the GPU may be cut into parts, which contain some errors.
    """
    rows = load_actions()["beyond-reset"]
    return tuple(
        number
        for row in rows
        if re.search(row["model"], model) and (row["with-mig"] or not mig)
        for number in row["numbers"]
    )


@cache
def load_actions() -> Mapping[str, Any]:
    """The table of actions; read once."""
    text = (resources.files("gpuprov.gpu") / "xids.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def standing_xids(
    xids: Sequence[Xid],
    *,
    loaded_s: float | None,
    recovered: Collection[str] = (),
    returned: Collection[tuple[int, str]] = (),
    beyond_reset: Collection[tuple[int, str]] = (),
) -> tuple[Standing, ...]:
    """The Xids that still ask for something, each kind once for each GPU, in the order of the last report.

    The driver's last start cures what came before it, on all GPUs; a recovery action that changes to none (Xid 154)
    does on its GPU. An Xid without a time is taken for later than both. GPUs of which NVML says that they need no
    recovery need no reset.

    Args:
        xids: In the order of the log.
        loaded_s: When the driver was loaded last, in seconds since boot; None where the log does not say.
        recovered: GPUs of which NVML says that, as Xids name them.
        returned: Number and GPU of those that were reported in the boots before as well.
        beyond_reset: Number and GPU of those that ask for a reboot on that model.
    """
    left: list[Xid] = []
    for xid in xids:
        if xid.seconds is not None and loaded_s is not None and xid.seconds < loaded_s:
            continue
        if xid.number == load_actions()["says-itself"]["number"]:
            cured = action_of(xid.number, xid.text) == "ignore"
            left = [one for one in left if one.pci != xid.pci or not (cured or one.number == xid.number)]
        left.append(xid)
    found: dict[tuple[int, str], Standing] = {}
    for xid in left:
        action = action_of(xid.number, xid.text)
        if action == "ignore" or (action == "reset-gpu" and xid.pci in recovered):
            continue
        key = xid.number, xid.pci
        before = found.pop(key, None)
        found[key] = Standing(xid=xid, count=before.count + 1 if before else 1, action=action)
    worn, suspect = _worn_gpus(xids), _suspect_gpus(left)
    asked = (_escalate(one, worn, suspect, returned) for one in found.values())
    return tuple(_on_this_model(one, beyond_reset) for one in asked)


def _on_this_model(one: Standing, beyond_reset: Collection[tuple[int, str]]) -> Standing:
    """A reboot where a reset of that model is not enough."""
    if one.action == "reset-gpu" and (one.xid.number, one.xid.pci) in beyond_reset:
        return replace(one, action="restart-host")
    return one


def _escalate(
    one: Standing, worn: Collection[str], suspect: Collection[tuple[int, str]], returned: Collection[tuple[int, str]]
) -> Standing:
    """A person is asked for where a reset or a reboot has been tried often enough, a test where jobs had the same."""
    if one.action == "restart-program" and (one.xid.number, one.xid.pci) in suspect:
        return replace(one, action="test-gpu")
    if one.action in ("reset-gpu", "restart-host") and (one.xid.number, one.xid.pci) in returned:
        return replace(one, action="inspect", returned=True)
    return replace(one, action="inspect") if one.action == "reset-gpu" and one.xid.pci in worn else one


def _worn_gpus(xids: Sequence[Xid]) -> frozenset[str]:
    """GPUs that asked for a reset so often within a day that one more will not help, cured or not."""
    worn = set()
    for pci in {xid.pci for xid in xids}:
        times = [
            xid.seconds
            for xid in xids
            if xid.pci == pci
            and xid.seconds is not None
            and xid.number != load_actions()["says-itself"]["number"]
            and action_of(xid.number, xid.text) == "reset-gpu"
        ]
        if any(later - first < _DAY_S for first, later in zip(times, times[OFTEN - 1 :], strict=False)):
            worn.add(pci)
    return frozenset(worn)


@dataclass(frozen=True, kw_only=True)
class _Report:
    """An error of a process, first reported at this time."""

    number: int
    pci: str
    seconds: float
    pid: str
    name: str

    def is_near(self, other: _Report) -> bool:
        """Whether the other one is of the same kind and of the same day."""
        return self.number == other.number and abs(self.seconds - other.seconds) < _DAY_S

    def is_of_another_job(self, other: _Report) -> bool:
        """Whether programs differ, or one was started again; processes that fail within a minute are of one job."""
        return self.name != other.name or (self.pid != other.pid and abs(self.seconds - other.seconds) > _ONE_JOB_S)


def _suspect_gpus(xids: Sequence[Xid]) -> frozenset[tuple[int, str]]:
    """Number and GPU of errors that different jobs had within a day, on that GPU alone.

    A program that has the error on several GPUs is wrong itself. Lines without a process or a time tell nothing.
    """
    reports = _list_reports(xids)
    own = [
        one
        for one in reports
        if not any(other.name == one.name and other.pci != one.pci and other.is_near(one) for other in reports)
    ]
    return frozenset(
        (one.number, one.pci)
        for one, other in combinations(own, 2)
        if one.pci == other.pci and one.is_near(other) and one.is_of_another_job(other)
    )


def _list_reports(xids: Sequence[Xid]) -> tuple[_Report, ...]:
    """The last errors that say more about a GPU if several jobs have them, each process once."""
    numbers = load_actions()["test-gpu-if-jobs-differ"]
    found: dict[tuple[object, ...], _Report] = {}
    for xid in xids:
        process = _PROCESS.search(xid.text)
        if xid.number in numbers and xid.seconds is not None and process:
            report = _Report(
                number=xid.number, pci=xid.pci, seconds=xid.seconds, pid=process["pid"], name=process["name"]
            )
            found.setdefault((report.number, report.pci, report.pid, report.name), report)
    return tuple(found.values())[-_MOST_REPORTS:]
