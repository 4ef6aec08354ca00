"""The programs that people have left running in nodes, beside Slurm's jobs: shells, notebooks, what they started."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import excerpt, few
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.drivers.base import Driver

_LOOK_S: Final = 5.0
_SHOWN: Final = 5  # programs of a node
_NODES: Final = 10  # that are shown
_WORDS: Final = 60  # characters of a program
_MOST: Final = 4096  # processes that are read of a node: it is not trusted
_LIST = r"""for p in /proc/[0-9]*; do
case ${p#/proc/} in $$ | $PPID) continue ;; esac
read -r stat <"$p/stat" && read -r name <"$p/comm" || continue
set -- ${stat##*) }
line=$(head -c 200 "$p/cmdline" | tr '\0\n' '  ')
[ -n "$line" ] && printf '%s\t%s\t%s\t%s\n' "${p#/proc/}" "$2" "$name" "$line"
done 2>/dev/null; true"""
# What images have running, by the first 15 characters of its name; with it goes what it started
_SERVICES: Final = frozenset(
    (
        *("(sd-pam)", "agetty", "cron", "dbus-daemon", "rsyslogd", "runsv", "svlogd", "munged"),
        *("slurmctld", "slurmd", "slurmscriptd", "slurmstepd"),
        *("beam.smp", "epmd", "erl_child_setup", "inet_gethost", "rabbitmq-server"),
    )
)
# These start what people do as well
_DOORS: Final = frozenset(("docker-init", "gpuprov-init", "init", "runsvdir", "systemd", "tini"))
_LOGINS: Final = "sshd"
_OWN: Final = " -m gpuwork."
_UNKNOWN: Final = "not known, as the node does not answer"


@dataclass(frozen=True, kw_only=True)
class _Process:
    parent: str
    name: str
    line: str


def programs_of_people(driver: Driver, nodes: Sequence[str]) -> tuple[str, ...]:
    """A line for each of these running nodes with programs of people, or that does not say which it has."""

    def ask(node: str) -> tuple[str, ...]:
        try:
            answer = driver.run(node, ["sh", "-c", _LIST], timeout_s=_LOOK_S)
        except GpuprovError:
            return (_UNKNOWN,)
        return parse_programs(answer.stdout) if answer.exit_code == 0 else (_UNKNOWN,)

    found = ask_side_by_side([partial(ask, node) for node in nodes], workers=questions_at_once()) if nodes else []
    busy = {node: programs for node, programs in zip(nodes, found, strict=True) if programs}
    lines = [f"programs in {node}: {_listed(programs)}" for node, programs in list(busy.items())[:_NODES]]
    return (*lines, f"programs in {len(busy) - _NODES} more nodes") if len(busy) > _NODES else tuple(lines)


def parse_programs(text: str) -> tuple[str, ...]:
    """The command lines that people started, from a node's list of processes; what is no such line is skipped."""
    rows = [line.split("\t", 3) for line in text.splitlines()[:_MOST]]
    there = {row[0]: _Process(parent=row[1], name=row[2], line=row[3].strip()) for row in rows if len(row) == 4}  # noqa: PLR2004 - the fields that are asked for
    return tuple(process.line for process in there.values() if _is_of_people(process, there))


def _is_of_people(process: _Process, there: dict[str, _Process]) -> bool:
    if process.name in _DOORS or process.name.startswith((_LOGINS, "systemd-")) or _OWN in f" {process.line} ":
        return False
    for above in _with_parents(process, there):
        if above.name.startswith(_LOGINS):
            return True
        if above.name in _SERVICES:
            return False
    return True


def _with_parents(process: _Process | None, there: dict[str, _Process]) -> Iterable[_Process]:
    seen: set[int] = set()
    while process is not None and id(process) not in seen:  # a hostile node may tell of a ring
        seen.add(id(process))
        yield process
        process = there.get(process.parent)


def _listed(programs: Sequence[str]) -> str:
    return few([excerpt(line, _WORDS) for line in programs], _SHOWN)
