"""What changes in the record of a cluster, in words: limits of jobs, people, and QOS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.shapes.base import write
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.shapes.cluster_spec import PersonSpec, QosSpec
    from gpuprov.spec.spec_error import SpecError

_NAMED: Final = 10  # names in a line, and lines of what differs


def describe_changes(spec: ClusterSpec, recorded: ClusterSpec) -> tuple[str, ...]:
    """A line for each limit of jobs that differs, and lines for people and QOS that come, go or differ."""
    wanted, had = write(spec.jobs), write(recorded.jobs)
    limits = tuple(f"record jobs.{words}" for words in _differing(wanted, had))
    people = _listed("people", "person", spec.people, recorded.people)
    return (*limits, *people, *_listed("QOS", "QOS", spec.slurm.qos, recorded.slurm.qos))


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


def _listed(
    several: str, one: str, wanted: Sequence[PersonSpec | QosSpec], had: Sequence[PersonSpec | QosSpec]
) -> tuple[str, ...]:
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
        *((f"remove {several}: {_names(gone, before)}",) if gone else ()),
        *changes[:_NAMED],
        *((f"change {more} more {several}",) if more > 0 else ()),
    )


def _names(names: Sequence[str], entries: Mapping[str, Mapping[str, Any]]) -> str:
    """With the numbers of people that have some."""
    told = [f"{name} ({uid})" if (uid := entries[name].get("uid")) else name for name in names[:_NAMED]]
    more = len(names) - _NAMED
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _differing(wanted: Mapping[str, Any], had: Mapping[str, Any]) -> list[str]:
    """Each key that differs, with both values; of keys of ssh only that there are others, for they are long."""
    told = []
    for key, value in wanted.items():
        if value == had[key]:
            continue
        words = f"{key}: {_shown(value)} (until now {_shown(had[key])})"
        told.append(f"other {key}" if isinstance(value, list) else words)
        if key == "uid":
            told.append(f"files keep the number {had[key]}")
    return told


def _shown(value: object) -> str:
    """As a spec has it."""
    if value is None or value == "" or value is False:
        return "unset"
    return "true" if value is True else str(value)
