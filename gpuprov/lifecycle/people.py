"""Bring running nodes to the people of their cluster: accounts, keys and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.people_files import APPLIED, SETTLE, is_about_people
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import File

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import FilesOf

_SETTLE_S: Final = 60.0
_TOLD: Final = 5  # troubles of a node in lines of their own


def settle_people(driver: Driver, stale: Mapping[str, Sequence[File]], files: FilesOf, *, reporter: Reporter) -> None:
    """Write what nodes lack of the files about people, and have them make folders and end what is left of others.

    A digest is taken away first and written last, so that a run that is killed in between is seen by the next.

    Args:
        driver: Reaches the nodes.
        stale: By node, the files that it lacks or has otherwise; those about other things are left alone.
        files: All files of a node as they are to be.
        reporter: Is told of folders that belong to somebody else, which stay as they are.

    Raises:
        EngineError: A node could not do it.
    """
    lacking = {name: [file for file in files if is_about_people(file)] for name, files in stale.items()}
    names = [name for name, files in lacking.items() if files]
    if names:
        with reporter.phase("people"):
            each(lambda name: _settle(driver, name, lacking[name], reporter), names)
            each(lambda name: driver.push(name, [file for file in files(name) if file.path == APPLIED]), names)


def _settle(driver: Driver, name: str, files: Sequence[File], reporter: Reporter) -> None:
    driver.push(name, [File(path=APPLIED, content=b"")])
    driver.push(name, [file for file in files if file.path != APPLIED])
    result = driver.run(name, [SETTLE], cwd="/", timeout_s=_SETTLE_S)
    if result.exit_code:
        raise EngineError(
            f"the folders of people could not be made on {name}",
            evidence=excerpt((result.stderr or result.stdout)[-LINE:].strip() or f"exit status {result.exit_code}"),
            fix=f"gpuprov exec {name} -- {SETTLE}",
        )
    troubles = [line for line in result.stdout.splitlines() if line.strip()]
    for line in troubles[:_TOLD]:
        reporter.warn(f"{name}: {excerpt(line, LINE)}")
    if len(troubles) > _TOLD:
        reporter.warn(f"{name}: {len(troubles) - _TOLD} more; all of them: gpuprov verify")
