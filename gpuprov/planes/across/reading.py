"""What must be read from nodes, before the host's lock is taken."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.planes.across.files import Reading, gather_files, look_at_files, present_crew
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.across.files import FilesSaid
    from gpuprov.planes.base import Plane

    Readings = Mapping[str, Reading]


def read_cluster(driver: Driver, state: ClusterState) -> Reading:
    """Read the planes' secrets, and what running nodes have of their files; a node that does not answer has none."""
    planes = planes_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    found: dict[str, bytes | GpuprovError] = {}
    files: dict[str, FilesSaid] = {}

    def read_secret(plane: Plane) -> None:
        try:
            found[plane.name] = plane.read_secret(driver, state)
        except GpuprovError as error:  # only a run that needs it must fail, and then it shall
            found[plane.name] = error

    def read_files() -> None:
        with suppress(GpuprovError):  # whoever needs the files gathers them again, and says why they cannot be
            files.update(_read_files(driver, state, planes))

    questions: list[Callable[[], None]] = [*(partial(read_secret, plane) for plane in planes), read_files]
    ask_side_by_side(questions, workers=len(questions))
    return Reading(state=state, secrets=found, files=files)


def _read_files(driver: Driver, state: ClusterState, planes: Sequence[Plane]) -> Mapping[str, FilesSaid]:
    """What running nodes say of their files; which these are does not depend on the planes' secrets."""
    crew = present_crew(state)
    if not crew.members or not all(plane.can_apply(state) for plane in planes):
        return {}
    unread = Reading(state=state, secrets={})
    files = gather_files(driver, crew, state, {}, unread)
    there = {member.name for member in crew.members}
    running = [node.name for node in state.nodes if node.status == "running" and node.name in there]
    return look_at_files(driver, running, files.of)
