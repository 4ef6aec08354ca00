"""`verify` passes on nodes that work, and says which do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.conftest import Gpuprov

NODES = ["e000", "e001", "e002", "e003"]
VERIFY = ("verify", "--cluster", "gpte2e")
pytestmark = pytest.mark.usefixtures("cluster")


def test_four_good_nodes_pass_and_every_line_says_simulated(gpuprov: Gpuprov) -> None:
    text = gpuprov(*VERIFY).stdout
    lines = [line for line in text.splitlines() if line.split()[:1] and line.split()[0] in NODES]
    assert [line.split()[:3] for line in lines] == [[name, "pass", "SIMULATED"] for name in NODES]


def test_a_node_without_its_gpu_fails_alone(gpuprov: Gpuprov, lxc: Callable[..., str]) -> None:
    device = gpuprov.rows()["e001"]["devices"][0].removeprefix("/dev/")  # other clusters hold GPUs of this host, too
    lxc("config", "device", "remove", "e001", f"dev-{device}")
    try:
        failed = gpuprov(*VERIFY, expect=1)
    finally:
        gpuprov("cluster", "up", "--name", "gpte2e", "--no-verify")
    verdicts = {
        line.split()[0]: line.split()[1] for line in failed.stdout.splitlines() if line[:4] in NODES and line[4] == " "
    }
    assert verdicts["e001"] == "fail"
    assert [verdicts[name] for name in ("e000", "e002", "e003")] == ["pass"] * 3
    assert f"/dev/{device}" in failed.stdout


def test_a_node_that_may_open_a_gpu_it_does_not_hold_fails(gpuprov: Gpuprov, lxc: Callable[..., str]) -> None:
    own = gpuprov.rows()["e002"]["devices"]
    minor = next(str(number) for number in range(4) if f"/dev/nvidia{number}" not in own)
    device = ("unix-char", f"path=/dev/nvidia{minor}", "major=195", f"minor={minor}")
    lxc("config", "device", "add", "e002", f"dev-nvidia{minor}", *device)
    try:
        failed = gpuprov(*VERIFY, "e002", expect=1)
    finally:
        gpuprov("cluster", "up", "--name", "gpte2e", "--no-verify")
    assert f"/dev/nvidia{minor}" in failed.stdout
    assert gpuprov(*VERIFY, "e002").exit_code == 0


def test_verdicts_for_programs(gpuprov: Gpuprov) -> None:
    document = gpuprov.json(*VERIFY)
    assert document["passed"] is True
    assert document["simulated"] is True
    assert sorted(node["node"] for node in document["nodes"]) == NODES
