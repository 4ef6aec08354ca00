"""`host list`, `host show` and what the other verbs of hosts say to people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.core.outcome import Outcome
from gpuprov.link.address import RemoteMachine
from gpuprov.link.hosts_file import remember_machine
from gpuprov.link.places import Places, ensure_places
from tests.fakes.ssh import install_ssh
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.stories.hosts import AddOrder
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

AWAY = "ssh: connect to host away.example port 22: No route to host"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return install_ssh(tmp_path, monkeypatch)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    (tmp_path / "run").mkdir()
    places = Places(config=tmp_path / "config/gpuprov", runtime=tmp_path / "run")
    monkeypatch.setattr("gpuprov.link.places.ensure_places", lambda: places)
    return places


@pytest.fixture
def known(ssh: FakeSsh, places: Places, world_member: Callable[..., str]) -> Callable[..., None]:
    def know(name: str, *, nodes: int = 0) -> None:
        address = f"{name}.example"
        remember_machine(places.inventory, RemoteMachine(name=name, address=address, user="root"))
        ssh.reach(address, member=world_member(ssh.root_of(address), "own", nodes=nodes))

    return know


def test_without_hosts_it_says_how_to_add_one(ssh: FakeSsh, places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host", "list"]) == 0
    assert capsys.readouterr().out == "no hosts; add one: gpuprov host add NAME --address ADDRESS\n"
    assert main(["--json", "host", "list"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == []
    assert ssh.calls() == []
    assert not places.inventory.exists()


def test_hosts_are_listed_with_those_that_are_away(
    ssh: FakeSsh, known: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    known("hoff", nodes=2)
    known("away")
    ssh.fail("away.example", AWAY)
    assert main(["host", "list"]) == 7
    said = capsys.readouterr()
    _, hoff, away = said.out.splitlines()
    assert hoff.split()[:7] == ["hoff", "root@hoff.example", "ready", "lxd", "2", "4", "2"]
    assert "SIMULATED" in hoff
    assert away.split()[:4] == ["away", "root@away.example", "away", "since"]
    assert "error: 1 of 2 hosts did not answer: away\n" in said.err
    assert f"away is unreachable since {away.split()[4]}: {AWAY}" in said.err
    assert main(["--json", "host", "list"]) == 7
    document = json.loads(capsys.readouterr().out)
    assert validate(document) == "gpuprov.hosts/v1"
    assert [host["status"] for host in document["hosts"]] == ["ready", "away"]
    assert document["error"]["exit_code"] == 7


def test_a_host_is_shown_with_all_that_it_has(known: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    known("hoff", nodes=1)
    assert main(["host", "show", "hoff"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("host: hoff (root@hoff.example)\n")
    assert "engine: lxd 1 on memory" in shown
    assert "inotify " in shown
    assert any(line.startswith("0 ") and line.rstrip().endswith(" c000 (lxd lab)") for line in shown.splitlines())


def test_one_that_is_away_cannot_be_shown(
    ssh: FakeSsh, known: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    known("away")
    ssh.fail("away.example", AWAY)
    assert main(["host", "show", "away"]) == 3
    said = capsys.readouterr().err
    assert "error: away is unreachable since 2" in said
    assert f"evidence: {AWAY}" in said
    assert "fix: ssh root@away.example" in said
    assert main(["host", "show", "nobody"]) == 2
    assert "fix: gpuprov host add nobody --address ADDRESS" in capsys.readouterr().err


def test_a_host_is_added_with_what_is_known_of_it(
    known: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    orders: list[AddOrder] = []

    def add(order: AddOrder, *_: object, **__: object) -> Outcome:
        orders.append(order)
        return Outcome()

    monkeypatch.setattr("gpuprov.stories.hosts.add_host", add)
    known("hoff")
    main(["host", "add", "hoff", "--port", "2222", "--proxy-jump", "gate", "--engine", "incus"])
    main(["host", "add", "new"])
    assert orders[0].machine == RemoteMachine(
        name="hoff", address="hoff.example", user="root", port=2222, proxy_jump="gate"
    )
    assert orders[0].engine == "incus"
    assert orders[1].machine == RemoteMachine(name="new", address="new")
    capsys.readouterr()
    assert main(["host", "add", "Hoff_1", "--address=-oProxyCommand=id", "--user", "a b"]) == 2
    said = capsys.readouterr().err
    assert "name 'Hoff_1'" in said
    assert "address '-oProxyCommand=id'" in said
    assert "user 'a b'" in said
    assert len(orders) == 2


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_folder_for_connections_that_others_can_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    run = tmp_path / "r"
    (run / "gpuprov-ssh").mkdir(parents=True)
    (run / "gpuprov-ssh").chmod(mode)
    monkeypatch.setattr("gpuprov.link.places._LONGEST_FOLDER", 500)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    assert main(["host", "list"]) == 3
    assert "is not a folder of uid" in capsys.readouterr().err
    (run / "gpuprov-ssh").rmdir()
    assert ensure_places().runtime == run / "gpuprov-ssh"
    assert (run / "gpuprov-ssh").stat().st_mode & 0o777 == 0o700
