"""ssh to nodes that this host cannot reach by an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.main import main

if TYPE_CHECKING:
    import pytest

    from tests.unit.cli.conftest import Typed


def test_a_node_on_the_private_network_alone_is_entered_by_the_engine(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[list[str]] = []

    def enter(argv: list[str]) -> int:
        entered.append(argv)
        return 0

    monkeypatch.setattr("gpuprov.workflows.enter_node.run_attached", enter)
    typed(("create-node", "far", "--network", "private", "--gpu-mode", "simulated"), capsys)
    assert main(["ssh", "far"], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "error: far has no address that this host can reach\nevidence: it has no address on eth0; its " in said
    assert said.rstrip().endswith("fix: gpuprov shell far")
    assert not entered
    typed(("shell", "far"), capsys)
    assert "far" in entered[0]
    typed(("rm", "far"), capsys)
