"""`gpuprov rest` and `gpuprov token` over a fake engine: what they print, and all that they refuse."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.core.relay import Relay
from gpuprov.roles.work.rest import RestService
from gpuprov.shapes.cluster_spec import NodesSpec
from tests.schemas import validate

if TYPE_CHECKING:
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

INTERRUPTED = 130
SERVICE = RestService(node="c000", account="work", fix="gpuprov exec c000 -- tail /var/log/slurm/slurmctld.log")


@pytest.fixture
def served(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster whose Slurm has the API."""
    typed.world.begin_with(2)
    monkeypatch.setattr("gpuprov.stories.rest._find", lambda *_, **__: SERVICE)
    return typed.world


def test_a_token_is_all_that_is_printed_and_no_log_has_it(
    served: World, capsys: pytest.CaptureFixture[str], logs: Any
) -> None:
    assert main(["token", "--lifespan", "8h"], host=served.host) == 0
    assert capsys.readouterr().out == f"{served.slurm.token}\n"
    assert main(["--json", "token"], host=served.host) == 0
    told = json.loads(capsys.readouterr().out)
    assert validate(told) == "gpuprov.token/v1"
    assert (told["account"], told["lifespan_s"], told["token"]) == ("work", 1800, served.slurm.token)
    written = "".join(path.read_text() for path in logs.rglob("*") if path.is_file())
    assert written
    assert served.slurm.token not in written


@pytest.mark.parametrize("lifespan", ["0", "721h", "8 hours", "-1"])
def test_a_lifespan_that_is_none_is_refused(served: World, lifespan: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", f"--lifespan={lifespan}"], host=served.host) == 2
    assert "fix: " in capsys.readouterr().err


@pytest.mark.parametrize("said", ["", "a.b", "a.b.c; rm -rf /", "a.b.\N{LATIN SMALL LETTER E WITH ACUTE}", "a.b.c\nd"])
def test_what_is_no_token_is_not_printed(served: World, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    served.slurm.token = said
    assert main(["token"], host=served.host) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Slurm made no token on c000" in printed.err
    assert SERVICE.fix in printed.err


def test_the_address_and_the_account_are_printed_before_it_relays(
    served: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []

    def serve(relay: Relay) -> None:
        ports.append(relay.port)
        raise KeyboardInterrupt

    monkeypatch.setattr(Relay, "serve", serve)
    assert main(["rest", "--port", "16820"], host=served.host) == INTERRUPTED
    assert capsys.readouterr().out.splitlines() == ["address: http://127.0.0.1:16820/", "account: work"]
    assert ports == [16820]
    assert main(["--json", "rest", "--port", "16820"], host=served.host) == INTERRUPTED
    assert validate(json.loads(capsys.readouterr().out)) == "gpuprov.rest/v1"


def test_a_port_that_is_taken_is_named_with_another_one(served: World, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--json", "rest", "--port", str(port)], host=served.host) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["what"] == f"port {port} of this host cannot be used for the REST API"
    assert error["fix"] == f"use another one: gpuprov rest --port {port % 10_000 + 10_000}"


@pytest.mark.parametrize("verb", ["rest", "token"])
def test_a_cluster_without_it_says_what_to_do(typed: Typed, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    assert main([verb], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "cluster lab has no REST API" in said
    assert "slurm.rest of its spec is false" in said
    assert "gpuprov cluster up" in said


def test_other_nodes_have_none(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    world = typed.world
    world.up(spec=world.spec(nodes=NodesSpec(count=1, role="plain")))
    assert main(["token"], host=world.host) == 2
    assert "its nodes are for: plain; Slurm has one" in capsys.readouterr().err
