"""A transport whose node is a folder of this machine: /run of the node is that folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping


class LocalTransport:
    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, node: str, argv: list[str], environment: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        assert environment == {"GPUPROV_KEEP_COMPILED": "1"}
        if node == "gone":
            raise EngineError("there is no node gone", evidence="asked", fix="make it")
        with (self._root / "commands").open("a", encoding="utf-8") as log:
            log.write(f"{node}: {argv[-1][:60]!r}\n")
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def look(self, node: str, argv: list[str]) -> str:
        """Where tests count the looks; a node says what its file `does` holds."""
        with (self._root / "looks").open("a", encoding="utf-8") as log:
            log.write(f"{node}: {argv[:2]}\n")
        does = self._root / "does"
        return subprocess.run(["sh", str(does)], capture_output=True, text=True, check=True).stdout

    def put(self, node: str, path: str, content: bytes) -> None:  # noqa: ARG002 - one node
        Path(path).write_bytes(content)

    def get(self, node: str, path: str) -> bytes:  # noqa: ARG002 - one node
        return Path(path).read_bytes()

    def close(self) -> None:
        (self._root / "closed").touch()


def open_transport(engine: str) -> LocalTransport:
    assert engine == "test"
    return LocalTransport(Path(os.environ["GPUPROV_TEST_ROOT"]))
