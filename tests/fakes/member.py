"""`gpuprov member` on a host with simulated GPUs and a fake engine.

    python3 -m tests.fakes.member ROOT NAME NODES member

The fixture `world_member` gives a command that runs it in a fork.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, cast

from gpuprov.cli import session
from gpuprov.cli.main import main
from gpuprov.core.errors import HostNotReady
from gpuprov.core.outcome import Outcome
from gpuprov.core.reporter import Silent
from gpuprov.fleet.member import serve as member
from gpuprov.machine.survey import EngineDoor
from tests.fakes.world import World


def prepare(root: Path) -> Outcome:
    """What `host prepare` does the first time, and the second."""
    mark = root / "prepared"
    changed = () if mark.exists() else ("installed lxd",)
    mark.touch()
    return Outcome(changed=changed)


def serve(root: Path, name: str, nodes: int, arguments: list[str]) -> int:
    """As the program on a host does; its log is below the root."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    member.prepare_host = lambda *_, **__: prepare(root)  # type: ignore[attr-defined]
    session.log_folder = lambda *_, **__: root / "log"  # type: ignore[attr-defined]
    world = World(root, cast("Any", Silent()))
    if nodes:
        world.up(nodes)

    def connect(engine: str) -> Any:
        if engine != "lxd":
            raise HostNotReady(f"{engine} is not here", evidence="e", fix="f")
        driver = world.driver
        driver.name, driver.host = engine, world.host.name
        return driver

    world.host.engines = (EngineDoor(name="lxd", open=lambda: connect("lxd"), installed=lambda: True),)
    world.host.name = name
    return main(arguments, host=world.host)


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
