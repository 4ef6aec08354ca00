"""A cluster's spec as one line of JSON, the form in which it is recorded as a label on the cluster's network."""

from __future__ import annotations

import json
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, cast

from gpuprov.core.redact import hide_secrets
from gpuprov.shapes.base import changed, parse_json, write
from gpuprov.shapes.cluster_spec import API_VERSION, ClusterSpec, WrittenSpec
from gpuprov.shapes.faults import find_faults
from gpuprov.spec.document import SPEC, problem
from gpuprov.spec.gpu_order import CRITERIA
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpuprov.shapes.faults import Fault

_FIRST_CRITERIA = ("model", "memory_gib")
# The first one that is above others comes first: it goes as a whole, or they do.
_LATER = (
    "nodes.processes",
    "gpus.scrub",
    "image.toolkit",
    "slurm.backup",
    "slurm.login",
    "slurm.network",
    "slurm.partitions",
    "slurm.qos",
    "slurm.rest",
    "slurm.shards_per_gpu",
    "network.host_ports",
    "jobs",
    "jobs.keep",
    "jobs.submit_as",
    "people",
    "sssd",
    "accounting",
)
_SHOWN = 5
_LINE = 200  # characters
_OF_HOSTS = ("hosts", "placement", "unreachable")  # and network.overlay: they say nothing where there are no hosts


def plain_spec(spec: ClusterSpec) -> dict[str, Any]:
    """A spec as JSON has it, with every key; those about hosts only where it names hosts."""
    plain = write(spec)
    if not spec.hosts:
        plain = {key: value for key, value in plain.items() if key not in _OF_HOSTS}
        del plain["network"]["overlay"]
    return plain


def dump_spec(spec: ClusterSpec) -> str:
    """Write a spec with its defaults, so that a later change of them does not change what was asked for.

    A spec in which a key of `_LATER` has its default is written as by gpuprov before it knew that key: a difference is
    work. So is one without what each GPU has to meet, except for the first keys of that kind.
    """
    plain, usual = plain_spec(spec), write(ClusterSpec())
    for path in _LATER:
        *above, key = path.split(".")
        part, default = (reduce(lambda one, name: one.get(name, {}), above, of) for of in (plain, usual))
        if key in part and part[key] == default[key]:
            del part[key]
    for name in CRITERIA.keys() - {*_FIRST_CRITERIA, *spec.gpus.criteria}:
        del plain["gpus"][name]
    return json.dumps({"version": API_VERSION, **plain}, sort_keys=True, separators=(",", ":"))


def load_spec_json(text: str, *, cluster: str) -> ClusterSpec:
    """Read what `dump_spec` wrote for a cluster of that name.

    The meaning is not checked again: a folder that a mount needs may be gone, and the cluster must still be found.

    Raises:
        SpecError: It is not what `dump_spec` writes, or that of another cluster.
    """
    spec, problems = _decode(text)
    if spec is not None and spec.name != cluster and not problems:
        problems = (problem("name", None, f"is {spec.name[:60]!r}", allowed=cluster),)
    if spec is None or problems:
        raise SpecError(
            f"the spec recorded with cluster {cluster} cannot be read",
            problems=_few(problems),
            fix=f"record it again from a file: gpuprov cluster up --name {cluster} -f FILE; "
            f"or remove the cluster: gpuprov cluster down {cluster}; "
            "or, if a later version recorded it, upgrade gpuprov",
        )
    return spec


@lru_cache(maxsize=16)
def _decode(text: str) -> tuple[ClusterSpec | None, tuple[Fault, ...]]:
    """A command looks at its cluster several times, and reads the same text each time."""
    try:
        told = parse_json(text)
    except ValueError as error:
        return None, (problem("", None, f"not JSON: {error}"),)
    values, faults = find_faults(WrittenSpec, cast("Mapping[str, Any]", told), file=SPEC, hide=hide_secrets)
    return ClusterSpec(**values), tuple(faults)


def _few(problems: Sequence[Fault]) -> tuple[Fault, ...]:
    """The first of them, in one line of printable characters each: a damaged label may hold anything."""
    shown = [changed(one, where=_printable(one.where), message=_printable(one.message)) for one in problems[:_SHOWN]]
    more = len(problems) - _SHOWN
    return (*shown, *([problem("", None, f"and {more} more problems")] if more > 0 else []))


def _printable(text: str) -> str:
    return ascii(text[:_LINE])[1:-1]
