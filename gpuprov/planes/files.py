"""The files of a cluster's nodes, those of their planes included, and which of them running nodes lack."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.files import SIMULATOR, render_hosts
from gpuprov.core.names import fold
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, File, ImageState
    from gpuprov.planes.base import Crew, Plane, Render

_WORKERS = 8
_COMMAND_BUDGET_S = 30.0
_LOOK = 'sha256sum -- "$@"; stat -c "%a %u:%g %n" -- "$@"'


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a cluster's nodes.

    Attributes:
        crew: The nodes.
        hosts: /etc/hosts, the same on all of them.
        planes: Those of the nodes, in the registry's order.
        rendering: By plane, what renders its files for a member.
    """

    crew: Crew
    hosts: File
    planes: tuple[Plane, ...]
    rendering: Mapping[str, Render]

    def of(self, name: str) -> tuple[File, ...]:
        """What is kept up to date on a node; who may log in is its user's to change after the first boot."""
        member = next(member for member in self.crew.members if member.name == name)
        simulator = (SIMULATOR,) if member.simulated else ()
        render = self.rendering.get(member.role)
        return (self.hosts, *simulator, *(render(member) if render else ()))


def gather_files(driver: Driver, crew: Crew, state: ClusterState, images: Mapping[str, ImageState]) -> FileSet:
    """Read what the files are made from, such as keys in the nodes; changes nothing.

    Args:
        driver: The engine.
        crew: The cluster's nodes as they are to be.
        state: The cluster as it is.
        images: Of new nodes, by role.
    """
    planes = planes_of(member.role for member in crew.members)
    rendering = {plane.name: plane.gather_files(driver, crew, state, images.get(plane.name)) for plane in planes}
    hosts = render_hosts(crew.spec.name, crew.members)
    return FileSet(crew=crew, hosts=hosts, planes=planes, rendering=rendering)


def find_stale(
    driver: Driver, names: Iterable[str], files: Callable[[str], Sequence[File]]
) -> dict[str, tuple[File, ...]]:
    """The files that each running node lacks, or has otherwise; nodes with all of them are left out."""

    def look(name: str) -> tuple[str, tuple[File, ...]]:
        wanted = files(name)
        argv = ["sh", "-c", _LOOK, "sh", *(file.path for file in wanted)]
        said = driver.run(name, argv, timeout_s=_COMMAND_BUDGET_S).stdout.splitlines()
        return name, tuple(file for file in wanted if not set(_describe(file)) <= set(said))

    with ThreadPoolExecutor(_WORKERS) as pool:
        return {name: stale for name, stale in pool.map(look, names) if stale}


def _describe(file: File) -> tuple[str, str]:
    """What `_LOOK` prints of a file that is as it should be."""
    digest = hashlib.sha256(file.content).hexdigest()
    return f"{digest}  {file.path}", f"{file.mode:o} {file.uid}:{file.gid} {file.path}"


def renewal_lines(planes: Sequence[Plane], stale: Mapping[str, Sequence[File]]) -> tuple[str, ...]:
    """Lines of a plan or an outcome: one for each set of files, with the nodes that lack them."""
    marks = {path: words for plane in planes for path, words in plane.marks.items()}
    nodes: dict[str, list[str]] = {}
    for name, files in stale.items():
        paths = ", ".join(file.path for file in files if file.path not in marks)
        alone = ", ".join(marks[file.path] for file in files if file.path in marks)
        nodes.setdefault(f"renew {paths}" if paths else alone, []).append(name)
    return tuple(f"{change} on {fold(names)}" for change, names in nodes.items())
