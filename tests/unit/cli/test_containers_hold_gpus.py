"""GPUs that containers hold by the runtime are not free for nodes and jobs, which name the holder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.gpu.allocate import CONTAINERS, Lease

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

SIMULATED = ("--gpu-mode", "simulated")


def hold(typed: Typed, *numbers: int, sharing: Any = "exclusive") -> None:
    gpus = [typed.world.gpus.gpus[number] for number in numbers]
    lease = Lease(
        node="train",
        gpus=tuple(gpu.uuid for gpu in gpus),
        sharing=sharing,
        engine="docker",
        cluster=CONTAINERS,
        status="running",
        minors=tuple(gpu.minor for gpu in gpus),
    )
    typed.world.host.containers = (lease,)


@pytest.mark.parametrize(
    "argv",
    [
        ("create-node", "web", "--role", "plain", *SIMULATED, "--gpus", "4"),
        ("cluster", "up", "-n", "1", "--gpus-per-node", "4", *SIMULATED, "--no-verify"),
    ],
)
def test_a_node_gets_none_of_them(typed: Typed, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    hold(typed, 2)
    assert main(argv, host=typed.world.host) != 0
    said = capsys.readouterr().err
    assert "train (exclusive, docker)" in said
    assert typed.world.names == []


def test_what_is_left_is_given_out(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    hold(typed, 0, 2)
    typed(("create-node", "web", "--role", "plain", *SIMULATED, "--gpus", "2"), capsys)
    listed = typed(("show", "web"), capsys)
    uuids = [gpu.uuid for gpu in typed.world.gpus.gpus]
    assert [number for number, uuid in enumerate(uuids) if uuid in listed] == [1, 3]


def test_a_shared_one_is_shared_with_a_node_that_shares(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    hold(typed, 0, 1, 2, 3, sharing="shared")
    typed(("create-node", "web", "--role", "plain", *SIMULATED, "--gpus", "1", "--sharing", "shared"), capsys)
    own = ("create-node", "own", "--role", "plain", *SIMULATED, "--gpus", "1", "--exclusive")
    assert main(own, host=typed.world.host) != 0
    assert "train (shared, docker)" in capsys.readouterr().err


def test_nodes_that_share_gpus_share_the_others(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    hold(typed, 2)
    typed(("cluster", "up", "-n", "4", *SIMULATED, "--no-verify"), capsys)
    held = {uuid for row in json.loads(typed(("--json", "list"), capsys))["nodes"] for uuid in row["gpus"]}
    assert held == {gpu.uuid for number, gpu in enumerate(typed.world.gpus.gpus) if number != 2}
