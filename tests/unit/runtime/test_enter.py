"""A process enters a container, under a policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.runtime.create import REFUSED, main
from gpuprov.runtime.enter import require_entry
from gpuprov.shapes.base import encode
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals

if TYPE_CHECKING:
    from pathlib import Path

POLICY = GatePolicy(refuse=PolicyRefusals(capabilities=True))


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """That of `docker exec --privileged`."""
    (tmp_path / "rules.json").write_bytes(encode(POLICY))
    put_state(tmp_path, "gpuprov.lease={}")
    path = tmp_path / "process"
    path.write_text(json.dumps({"args": ["sh"], "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}))
    return path


def put_state(folder: Path, label: str) -> None:
    config = {"labels": ["bundle=/b", label], "capabilities": {"Bounding": ["CAP_CHOWN"], "Ambient": None}}
    (folder / "state.json").write_text(json.dumps({"config": config}))


def test_what_its_container_does_not_have_is_refused(tmp_path: Path, process: Path) -> None:
    with pytest.raises(UsageError) as caught:
        require_entry(tmp_path, process, state=tmp_path, touch="requests")
    assert "refuse.capabilities: CAP_SYS_ADMIN" in caught.value.evidence


def test_a_container_that_the_policy_does_not_touch_is_entered(tmp_path: Path, process: Path) -> None:
    put_state(tmp_path, "a=gpuprov.lease=1")
    (tmp_path / "rules.json").unlink()
    require_entry(tmp_path, process, state=tmp_path, touch="requests")
    with pytest.raises(HostNotReady, match="policy cannot be read"):
        require_entry(tmp_path, process, state=tmp_path, touch="everything")


@pytest.mark.parametrize("content", ["", "[", "[]", "7", "[" * 100_000])
def test_what_cannot_be_read_is_not_let_in(tmp_path: Path, process: Path, content: str) -> None:
    process.write_text(content)
    if content != "[]":
        with pytest.raises(HostNotReady, match="cannot be judged"):
            require_entry(tmp_path, process, state=tmp_path, touch="everything")
    log = tmp_path / "log"
    (tmp_path / "state.json").write_text(content or "{")
    words = [str(tmp_path), "1", ".", str(tmp_path.parent), tmp_path.name, str(log), "0", "everything", str(process)]
    assert (main(words), log.exists()) == ((REFUSED, True) if content != "[]" else (0, False))
