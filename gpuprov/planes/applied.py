"""Files into running nodes whose services read them: written, read again, and only then marked as applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import File

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.planes.base import FilesOf


def apply_marked(
    driver: Driver,
    stale: Mapping[str, Sequence[File]],
    files: FilesOf,
    *,
    mark: str,
    own: tuple[str, ...],
    restart: Callable[[Mapping[str, frozenset[str]]], object],
) -> None:
    """Write the files, and restart what reads them.

    The digest of what the services have read is taken away first and written last, so that a run killed in between, or
    services that have read what somebody else wrote, are seen and repaired by the next.

    Args:
        driver: The engine.
        stale: By node, the files that it lacks or has otherwise.
        files: All files of a node as they are to be.
        mark: The path of the digest.
        own: What the paths of files begin with that the services read.
        restart: Is called with the nodes where some of these were lacking, and the paths.
    """
    lacking = {name: frozenset(file.path for file in lacked) for name, lacked in stale.items()}
    renewed = {name: paths for name, paths in lacking.items() if any(path.startswith(own) for path in paths)}
    each(lambda name: driver.push(name, [File(path=mark, content=b"")]), list(renewed))
    each(lambda name: driver.push(name, [file for file in stale[name] if file.path != mark]), list(stale))
    if renewed:
        restart(renewed)
        each(lambda name: driver.push(name, [file for file in files(name) if file.path == mark]), list(renewed))
