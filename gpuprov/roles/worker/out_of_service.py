"""Keeps work from the workers of nodes that are about to go, by files on the folder that all nodes share.

gpuwork hands back a run where its node has such a file (`gpuwork.jobs.store.is_held`). A file says which process made
it, so that a later one can tell whether that was killed. Jobs can write there, as they can take from the queue.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.process import describe_owner, is_gone
from gpuprov.roles.work.work_place import FOLDER
from gpuprov.spec.shared_folder import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver

_HELD: Final = f"{FOLDER}/.held"
# What a job put into the place of the folder, or of a file in it, goes; a shell that opens a FIFO would wait
_TAKE_OUT: Final = f"""\
[ -d {_HELD} ] && [ ! -L {_HELD} ] || rm -rf {_HELD}
mkdir -p {_HELD} && chmod u+rwx {_HELD} && cd {_HELD} && owner=$1 && shift
for name; do
    rm -rf -- ".$name" && echo "$owner" >".$name" && {{ [ ! -d "$name" ] || rm -rf -- "$name"; }} &&
        mv -fT -- ".$name" "$name" || exit 1
done"""
_LIST: Final = f"""\
cd {_HELD} 2>/dev/null || exit 0
for name in *; do
    [ ! -f "$name" ] || [ -L "$name" ] || echo "$name $(head -n 1 "$name" | head -c 300)"
done | head -c 100000"""
_PUT_BACK: Final = f'cd {_HELD} && rm -rf -- "$@"'
_LAST: Final = " last"  # the whole cluster goes: should one of that name come, nobody has to be told
_LINE: Final = re.compile(rf"([a-z0-9][a-z0-9-]{{0,62}}) ([!-~]+(?: [!-~]+){{4}}(?:{_LAST})?)")
_BUDGET_S: Final = 15.0


def take_out(driver: Driver, asked: str, names: Collection[str], *, last: bool) -> tuple[str, ...]:
    """Have no run begin on the workers of nodes; what another process took out of service stays so.

    Args:
        asked: A node with the shared folder, which runs.
        names: The nodes to take out of service.
        last: Whether no other node is left.

    Returns:
        What a killed process had left out of service.

    Raises:
        GpuprovError: It cannot be read or written there.
    """
    held, own = list_taken_out(driver, asked), describe_owner(os.getpid())
    free = [name for name in sorted(names) if name not in held or is_gone(held[name].removesuffix(_LAST))]
    if free:
        _run(driver, asked, _TAKE_OUT, own + (_LAST if last else ""), *free)
    return abandoned_of(held)


def list_taken_out(driver: Driver, asked: str) -> dict[str, str]:
    """The nodes that are out of service, and the process that took out each, in words.

    Raises:
        GpuprovError: It cannot be read there.
    """
    found = (_LINE.fullmatch(line) for line in _run(driver, asked, _LIST).splitlines())
    return {match[1]: match[2] for match in found if match}


def abandoned_of(held: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the nodes whose process was killed."""
    return tuple(sorted(name for name, owner in held.items() if is_gone(owner)))  # whoever took all of them out is none


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """Nodes that were out of service.

    Attributes:
        own: By this process, until now.
        left: By one that was killed, until now.
        kept: By others, in words, and they are still.
    """

    own: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


def put_back(driver: Driver, asked: str) -> PutBack:
    """Put the workers back in service that this process took out, or one that was killed.

    Raises:
        GpuprovError: It cannot be read or written there.
    """
    held, own = list_taken_out(driver, asked), describe_owner(os.getpid())
    owners = {name: owner.removesuffix(_LAST) for name, owner in sorted(held.items())}
    over = [name for name, owner in owners.items() if owner == own or is_gone(owner)]
    if over:
        _run(driver, asked, _PUT_BACK, *over)
    return PutBack(
        own=tuple(name for name in over if held[name] == own),
        left=abandoned_of(held),
        kept={name: owner for name, owner in owners.items() if name not in over},
    )


def warn_of_kept(kept: Mapping[str, str], names: Collection[str], asked: str, reporter: Reporter) -> None:
    """Say which of these nodes take no work, and how they would."""
    for name in sorted(set(kept) & set(names)):
        reporter.warn(
            f"{name} starts no runs: another command holds it ({excerpt(kept[name])}); "
            f"if that is over: gpuprov exec {asked} -- rm {_HELD}/{name}"
        )


def _run(driver: Driver, asked: str, script: str, *arguments: str) -> str:
    argv: Sequence[str] = ["runuser", "-u", ACCOUNT, "--", "sh", "-c", script, "out-of-service", *arguments]
    result = driver.run(asked, argv, timeout_s=_BUDGET_S)
    if result.exit_code:
        raise EngineError(
            "the workers of nodes cannot be taken out of service",
            evidence=excerpt(f"{asked}: {result.stderr.strip() or f'exit status {result.exit_code}'}"),
            fix=f"gpuprov exec {asked} -- ls -ld {FOLDER} {_HELD}",
        )
    return result.stdout
