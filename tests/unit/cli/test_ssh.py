"""ssh to nodes: with what is known of their host keys, and to those that this host cannot reach by an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.main import main
from gpuprov.cluster.known_hosts import HOST_KEY
from gpuprov.cluster.secrets import key_folder
from gpuprov.drivers.base import File
from gpuprov.stories.inventory import read_inventory
from tests.fakes.host import fleet_of
from tests.unit.cluster.test_known_hosts import KEY

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.cli.conftest import Typed


def test_a_node_on_the_private_network_alone_is_entered_by_the_engine(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[list[str]] = []

    def enter(argv: list[str]) -> int:
        entered.append(argv)
        return 0

    for place in ("gpuprov.stories.enter_node", "tests.fakes.driver"):
        monkeypatch.setattr(f"{place}.run_attached", enter)
    typed(("create-node", "far", "--network", "private", "--gpu-mode", "simulated"), capsys)
    assert main(["ssh", "far"], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "error: far has no address that this host can reach\nevidence: it has no address on eth0; its " in said
    assert said.rstrip().endswith("fix: gpuprov shell far")
    assert not entered
    typed(("shell", "far"), capsys)
    assert "far" in entered[0]
    typed(("rm", "far"), capsys)


def test_ssh_and_ansible_believe_one_file_which_has_a_line_for_the_address_of_the_node(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entered: list[list[str]] = []

    def enter(argv: list[str]) -> int:
        entered.append(argv)
        return 0

    for place in ("gpuprov.stories.enter_node", "tests.fakes.driver"):
        monkeypatch.setattr(f"{place}.run_attached", enter)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    typed.world.up(1)
    typed.world.engine.nodes["c000"].files[HOST_KEY] = File(path=HOST_KEY, content=f"{KEY} root@c000\n".encode())
    known = key_folder("lab") / "known_hosts"
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(f"* {KEY}\n")
    typed(["ssh", "c000", "--", "true"], capsys)
    assert known.read_text() == f"10.0.3.2 {KEY}\n"
    option = f"UserKnownHostsFile={known}"
    assert option in entered[0]
    assert "StrictHostKeyChecking=yes" in entered[0]
    assert f"-o {option} " in read_inventory(fleet_of(typed.world.host)).hosts["c000"].ansible_ssh_common_args
    typed.world.engine.nodes["c000"].files[HOST_KEY] = File(path=HOST_KEY, content=f"* {KEY}\n".encode())
    typed(["ssh", "c000", "--", "true"], capsys, codes=(4,))
    assert len(entered) == 1
    assert known.read_text() == f"10.0.3.2 {KEY}\n"
