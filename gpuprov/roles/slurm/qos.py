"""The qualities of service of a cluster: limits that a job chooses by name (`--qos long`), in Slurm's accounting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.units import HOUR_S, parse_duration_s
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.shapes.limits import LONGEST_S
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.cluster_spec import ClusterSpec, QosSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.qos"
_MOST: Final = 100
_MINUTE_S: Final = 60
_LOOK_S: Final = 15.0
_EACH_S: Final = 1.0
_OURS: Final = "gpuprov"  # what it is described as: one that an administrator made stays as it is
_FLAG: Final = "DenyOnLimit"  # a job beyond a limit is refused, and does not wait for ever
_NO_LIMIT: Final = -1
_GPUS: Final = "gres/gpu"
_ROW: Final = re.compile(
    r"([A-Za-z0-9_.-]{1,64})\|([^|\n]{0,300})\|((?:(?:[0-9]{1,5}-)?[0-9]{1,2}:[0-9]{2}:[0-9]{2})?)"
    r"\|([A-Za-z0-9=,/._:-]{0,300})\|([A-Za-z,]{0,300})",
    re.ASCII,
)
_ALLOWED: Final = re.compile(r"allowed ([A-Za-z0-9_.,-]{0,10000})", re.ASCII)
# What cannot be recorded here is not asked for: the controller's image may be older than accounting is
_LOOK: Final = """[ -e "$1" ] || exit 0
sacctmgr -nP show qos format=name,description,maxwall,maxtrespu,flags || exit
exec sacctmgr -nP show assoc cluster="$2" account=root user="" format=qos | sed 's/^/allowed /'
"""
_CHANGE: Final = "while IFS= read -r words; do sacctmgr -iQ $words </dev/null || exit; done"


class Qos(NamedTuple):
    """One as the accounting has it; -1 where there is no limit."""

    ours: bool
    minutes: int
    gpus: int
    denies: bool


class SeenQos(NamedTuple):
    """What the accounting has.

    Attributes:
        listed: By name.
        allowed: Names of those that jobs of the cluster may choose.
    """

    listed: Mapping[str, Qos]
    allowed: frozenset[str]


def parse_qos(text: str) -> SeenQos:
    """Read what the script prints; raises ValueError for a line that it does not print."""
    listed, allowed = {}, set()
    for line in text.splitlines():
        if found := _ALLOWED.fullmatch(line):
            allowed |= set(filter(None, found[1].split(",")))
        elif found := _ROW.fullmatch(line):
            name, about, wall, most, flags = found.groups()
            limits = dict(limit.partition("=")[::2] for limit in most.split(",") if limit)
            gpus = limits.get(_GPUS, "")
            listed[name] = Qos(
                ours=about == _OURS,
                minutes=_minutes(wall),
                gpus=int(gpus) if gpus.isdecimal() else _NO_LIMIT,
                denies=_FLAG in flags.split(","),
            )
        else:
            raise ValueError(line)
    return SeenQos(listed=listed, allowed=frozenset(allowed))


def plan_qos(cluster: str, wanted: Sequence[QosSpec], seen: SeenQos) -> tuple[str, ...]:
    """What `sacctmgr` is to be told, a line for each difference; what an administrator has made stays."""
    lines = []
    for one in wanted:
        now = seen.listed.get(one.name)
        seconds = parse_duration_s(one.max_time or "")
        minutes = _NO_LIMIT if seconds is None else -(-seconds // _MINUTE_S)
        gpus = _NO_LIMIT if one.gpus is None else one.gpus
        if now is None:
            lines.append(f"add qos {one.name} description={_OURS}")
        if now is None or (now.minutes, now.gpus, now.denies) != (minutes, gpus, True):
            lines.append(f"modify qos {one.name} set MaxWall={minutes} MaxTRESPerUser={_GPUS}={gpus} Flags={_FLAG}")
    names = {one.name for one in wanted}
    lacking = sorted(names - seen.allowed)
    if lacking:
        lines.append(f"modify cluster {cluster} set QosLevel+={','.join(lacking)}")
    # not deleted: with one, Slurm takes all others from every account of the cluster (22.05)
    gone = sorted(name for name, one in seen.listed.items() if one.ours and name in seen.allowed - names)
    if gone:
        lines.append(f"modify cluster {cluster} set QosLevel-={','.join(gone)}")
    return tuple(lines)


def ensure_qos(driver: Driver, controller: str, spec: ClusterSpec) -> tuple[str, ...]:
    """Have the accounting know them; nothing where the controller's node records no jobs.

    Returns:
        What it was told.

    Raises:
        EngineError: Slurm's accounting refused, or what it says is none.
        TimedOut: It does not answer.
    """
    look = ["sh", "-c", _LOOK, "sh", slurm_path("slurmdbd"), spec.name]
    said = driver.run(controller, look, timeout_s=_LOOK_S)
    if said.exit_code:
        raise _refused(controller, said.stderr)
    try:
        seen = parse_qos(said.stdout)
    except ValueError as error:
        raise _refused(controller, str(error)) from error
    lines = plan_qos(spec.name, spec.slurm.qos, seen) if seen.listed else ()
    if lines:
        stdin = "".join(f"{line}\n" for line in lines).encode()
        done = driver.run(controller, ["sh", "-c", _CHANGE], stdin=stdin, timeout_s=_LOOK_S + len(lines) * _EACH_S)
        if done.exit_code:
            raise _refused(controller, done.stderr or done.stdout)
    return lines


def _minutes(wall: str) -> int:
    """Of `1-02:03:00`; -1 for no limit."""
    if not wall:
        return _NO_LIMIT
    days, _, clock = wall.rpartition("-")
    hours, minutes, _seconds = map(int, clock.split(":"))
    return (int(days or 0) * 24 + hours) * 60 + minutes


def _refused(controller: str, said: str) -> EngineError:
    return EngineError(
        "Slurm's accounting does not take slurm.qos",
        evidence=excerpt(said.strip() or "it says nothing", LINE),
        fix=f"gpuprov exec {controller} -- sacctmgr show qos",
    )


def _accounting(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.qos and not spec.accounting:
        yield _KEY, "needs accounting, in which Slurm keeps it", "accounting: on; or []"


def _names(spec: ClusterSpec, _root: Path) -> Found:
    listed = spec.slurm.qos
    if len(listed) > _MOST:
        yield _KEY, f"has {len(listed)} entries", f"{_MOST} or fewer"
    first: dict[str, int] = {}
    for index, one in enumerate(listed):
        if first.setdefault(one.name.lower(), index) != index:  # Slurm takes Long for long
            yield (
                f"{_KEY}[{index}].name",
                f"{one.name} is the name of {_KEY}[{first[one.name.lower()]}]",
                "another name",
            )


def _times(spec: ClusterSpec, _root: Path) -> Found:
    for index, one in enumerate(spec.slurm.qos):
        if one.max_time is not None and not _MINUTE_S <= (parse_duration_s(one.max_time) or 0) <= LONGEST_S:
            allowed = f"a whole number with s, m or h, 1m to {LONGEST_S // HOUR_S}h, such as 12h; or null"
            yield f"{_KEY}[{index}].max_time", f"{one.max_time[:80]!r} is not a valid duration", allowed


RULES: Final = (
    SpecRule(reads=(_KEY, "accounting"), find=_accounting),
    SpecRule(reads=(_KEY,), find=_names),
    # of an entry without a name nothing is kept, and what is wrong otherwise is as if it were not given
    SpecRule(reads=(f"{_KEY}[].name",), find=_times),
)
