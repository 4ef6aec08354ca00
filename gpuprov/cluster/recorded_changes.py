"""What changes in the record of a cluster, in words: limits of jobs, people, partitions, QOS, and the backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import few
from gpuprov.core.names import fold, name_cluster
from gpuprov.shapes.base import write
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.shapes.cluster_spec import PartitionSpec, PersonSpec, QosSpec
    from gpuprov.spec.spec_error import SpecError

    _Entries = Sequence[PersonSpec | PartitionSpec | QosSpec]

_NAMED: Final = 10  # names in a line, and lines of what differs
_KEYS: Final = "keys"  # of ssh
_UNSET: Final = "unset"


def describe_changes(spec: ClusterSpec, recorded: ClusterSpec | None) -> tuple[str, ...]:
    """A line for each limit of jobs that differs, and lines for sssd, people, partitions, QOS and the backup.

    Args:
        spec: What is asked for.
        recorded: What was last asked for; None of a new cluster, which comes with all that is not usual.
    """
    had = recorded or ClusterSpec()
    limits = tuple(f"record jobs.{words}" for words in _differing(write(spec.jobs), write(had.jobs)))
    partitions, before = partitions_of(spec), partitions_of(had)
    before = () if recorded is None and partitions != before else before
    return (
        *limits,
        *_sssd(spec.sssd, had.sssd),
        *_listed("people", "person", spec.people, had.people),
        *_listed("partitions", "partition", partitions, before),
        *_listed("QOS", "QOS", spec.slurm.qos, had.slurm.qos),
        *_backup(spec.slurm.backup, had.slurm.backup),
    )


def refuse_handed_on(spec: ClusterSpec, recorded: ClusterSpec | SpecError | None) -> None:
    """Refuse a number of somebody that would be somebody else's at once: their jobs and processes would be, too.

    Args:
        spec: What is asked for.
        recorded: What was last asked for, as far as there is something that can be read.

    Raises:
        UsageError: There is such a number.
    """
    people = recorded.people if isinstance(recorded, ClusterSpec) else ()
    before = {person.uid: person.name for person in people if not person.in_directory}
    for person in spec.people:
        other = before.get(person.uid, person.name)
        if other != person.name:
            raise UsageError(
                f"the number {person.uid} of {other} cannot become that of {person.name} at once",
                evidence=f"jobs and processes of {other} in cluster {spec.name} would be those of {person.name}",
                fix=f"give {person.name} another number, or take {other} away before: "
                + name_cluster(f"gpuprov person rm {other}", spec.name),
            )


def _sssd(wanted: str | None, had: str | None) -> tuple[str, ...]:
    return () if wanted == had else (f"record sssd: {_shown(wanted)} (until now {_shown(had)})",)


def _backup(wanted: str | None, had: str | None) -> tuple[str, ...]:
    if wanted == had:
        return ()
    act = "change" if wanted and had else "add" if wanted else "remove"
    return (f"{act} the backup of the controller: {wanted or had}" + (f" (until now {had})" if wanted and had else ""),)


def _listed(several: str, one: str, wanted: _Entries, had: _Entries) -> tuple[str, ...]:
    """What differs between two lists of things with names."""
    there, before = ({entry.name: write(entry) for entry in entries} for entries in (wanted, had))
    new, gone = ([name for name in names if name not in others] for names, others in ((there, before), (before, there)))
    changes = [
        f"change {one} {name}: {', '.join(words)}"
        for name in there
        if name in before and (words := _differing(there[name], before[name]))
    ]
    more = len(changes) - _NAMED
    return (
        *((f"add {several}: {_names(new, there)}",) if new else ()),
        *((f"remove {several}: {_names(gone, {name: _number(before[name]) for name in gone})}",) if gone else ()),
        *changes[:_NAMED],
        *((f"change {more} more {several}",) if more > 0 else ()),
    )


def _names(names: Sequence[str], entries: Mapping[str, Mapping[str, Any]]) -> str:
    """With what each has, but for keys of ssh."""
    return few([f"{name} ({words})" if (words := _described(entries[name])) else name for name in names], _NAMED)


def _number(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of somebody who goes, the number, which their files keep."""
    return {key: value for key, value in entry.items() if key == "uid"}


def _described(entry: Mapping[str, Any]) -> str:
    said = {key: value for key, value in entry.items() if key not in {"name", _KEYS} and _shown(value) != _UNSET}
    return ", ".join(
        str(value) if key == "uid" else key if value is True else f"{key}: {_shown(value)}"
        for key, value in said.items()
    )


def _differing(wanted: Mapping[str, Any], had: Mapping[str, Any]) -> list[str]:
    """Each key that differs, with both values; of keys of ssh only that there are others, for they are long."""
    told = []
    for key, value in wanted.items():
        if value == had[key]:
            continue
        words = f"{key}: {_shown(value)} (until now {_shown(had[key])})"
        told.append(f"other {key}" if key == _KEYS else words)
        if key == "uid":
            told.append(f"files keep the number {had[key]}")
    return told


def _shown(value: object) -> str:
    """As a spec has it."""
    if value is None or value == "" or value is False:
        return _UNSET
    if isinstance(value, list):
        return fold(value)
    return "true" if value is True else str(value)
