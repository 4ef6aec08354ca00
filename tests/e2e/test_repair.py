"""What somebody changed is named by `cluster plan` and repaired by `cluster up`; a reboot is survived.

In CI everything is changed at once; the long tests change one thing at a time and measure each repair.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e import killing
from tests.e2e.conftest import lxd, output
from tests.e2e.killing import dump_cluster
from tests.e2e.places import EVERY_GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import Dump
    from tests.e2e.places import Place

CONF = "/etc/slurm/slurm.conf"
BACK_S = 90.0  # nodes that start by themselves after a reboot, beside whatever else the machine does
FORGET_S = 120.0  # InactiveLimit of slurm.conf, the half minute at which Slurm looks, and some for the machine
NETWORKS = Path("/var/lib/lxd/networks")


class Ward:
    """A cluster of three nodes and what it was when it was whole."""

    def __init__(self, gpuprov: Gpuprov, place: Place, spec: Path) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.up = ("cluster", "up", "-f", str(spec), "--no-verify")
        gpuprov(*self.up)
        self.whole = self.look()
        self.gpu = gpuprov.json("show", self.second)["node"]["devices"][0]["path"].removeprefix("/dev/")

    @property
    def second(self) -> str:
        return self.place.node(1)

    @property
    def third(self) -> str:
        return self.place.node(2)

    @property
    def bridge(self) -> str:
        return f"{self.place.mark}0"

    def look(self) -> Dump:
        return dump_cluster(self.place.cluster, self.place.mark, self.gpuprov.folder / "data")

    def plan(self) -> list[str]:
        plan: list[str] = self.gpuprov.json("cluster", "plan", "--name", self.place.cluster)["plan"]
        return plan

    def births(self) -> dict[str, str]:
        """When each node's first process began: another time after a restart."""
        pids = {item["name"]: item for item in lxd("instances?recursion=1") if item["name"].startswith(self.place.mark)}
        return {
            name: Path(f"/proc/{lxd(f'instances/{name}/state')['pid']}/stat").read_text().split()[21]
            for name, item in pids.items()
            if item["status"] == "Running"
        }

    def states(self) -> dict[str, str]:
        rows = self.gpuprov.json("cluster", "status", self.place.cluster)["nodes"]
        return {row["name"]: row["work"] for row in rows}

    @property
    def idle(self) -> dict[str, str]:
        return {self.place.node(number): "idle" for number in range(3)}

    def config(self, *argv: str) -> None:
        output("lxc", "config", *argv)

    def edit(self, name: str, path: str) -> None:
        self.gpuprov.in_node(name, "sh", "-c", f"echo '# edited' >> {path}")


# what is done to the second node or its network; how the plan names it; whether the node may start again for it
CASES: dict[str, tuple[Callable[[Ward], object], str, bool]] = {
    "a device is taken away": (
        lambda ward: ward.config("device", "remove", ward.second, f"dev-{ward.gpu}"),
        r"repair node {second}: devices \S*/dev/nvidia.* \(until now \S+\)",
        False,
    ),
    "a device is added": (
        lambda ward: ward.config("device", "add", ward.second, "sdz", "unix-char", "path=/dev/full"),
        r"repair node {second}: .*sdz.* unset \(until now ",
        False,
    ),
    "a limit is set": (
        lambda ward: ward.config("set", ward.second, "limits.processes=500"),
        r"repair node {second}: limits.processes \d+ \(until now 500\)",
        False,
    ),
    "autostart is off": (
        lambda ward: ward.config("set", ward.second, "boot.autostart=false"),
        r"repair node {second}: boot.autostart true \(until now false\)",
        False,
    ),
    "its privileges are raised": (
        lambda ward: ward.config("set", ward.second, "security.nesting=true"),
        r"repair node {second}: security.nesting unset \(until now true\)",
        True,
    ),
    "the host's driver is another one": (
        lambda ward: ward.config("set", ward.second, "user.gpuprov.driver=535.1.1"),
        r"repair node {second}: gpuprov.driver [\d.]+ \(until now 535.1.1\)",
        False,
    ),
    "slurm.conf is edited": (lambda ward: ward.edit(ward.second, CONF), r"renew .*slurm\.conf.* on .*{second}", False),
    "the hosts file is edited": (
        lambda ward: ward.edit(ward.second, "/etc/hosts"),
        "renew .*/etc/hosts.* on .*{second}",
        False,
    ),
    "the munge key is gone": (
        lambda ward: ward.gpuprov.in_node(ward.second, "rm", "/etc/munge/munge.key"),
        "renew .*munge.key.* on .*{second}",
        False,
    ),
    "the network has no NAT": (
        lambda ward: output("lxc", "network", "set", ward.bridge, "ipv4.nat=false"),
        r"repair network {bridge}: .*ipv4.nat true \(until now false\)",
        False,
    ),
    "the NAT rules are flushed": (
        lambda ward: output("nft", "flush", "chain", "inet", "lxd", f"pstrt.{ward.bridge}"),
        r"repair network {bridge}: NAT rule on the host present \(until now missing\)",
        False,
    ),
    "the isolation rules are flushed": (
        lambda ward: output("nft", "flush", "chain", "inet", "gpuprov", f"to.{ward.bridge}"),
        "isolate network {bridge} from other clusters",
        False,
    ),
    "the rules towards the host are flushed": (
        lambda ward: output("nft", "flush", "chain", "inet", "gpuprov", f"from.{ward.bridge}"),
        "isolate (network {bridge} from other clusters|the host from nodes on network {bridge})",
        False,
    ),
    "a node is stopped": (lambda ward: output("lxc", "stop", "--force", ward.second), "start node {second}", True),
    "a node is deleted": (
        lambda ward: output("lxc", "delete", "--force", ward.third),
        "create node {third}",
        True,
    ),
}


@pytest.fixture(scope="module")
def ward(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    path: Path = tmp_path_factory.mktemp("repair") / "spec.yaml"
    path.write_text(place.spec(count=3, gpus=EVERY_GPU))
    others = killing.loose_links()
    yield Ward(gpuprov, place, path)
    gpuprov("cluster", "down", place.cluster, "--yes")
    assert killing.loose_links() <= others, "what a killed engine left of the nodes' links goes with them"


def expected(ward: Ward, case: str) -> str:
    return CASES[case][1].format(second=ward.second, third=ward.third, bridge=ward.bridge)


def repair(ward: Ward, cases: list[str]) -> float:
    """Change, plan, repair, compare; seconds that the repair took."""
    births = ward.births()
    for case in cases:
        CASES[case][0](ward)
    plan = ward.plan()
    for case in cases:
        text = expected(ward, case)
        # several things of one node are one line of the plan
        words = text.removeprefix(f"repair node {re.escape(ward.second)}: ")
        assert [line for line in plan if re.search(text, line) or re.search(words, line)], (case, plan)
    touched = {name for name in ward.idle if any(name in line for line in plan)}
    began_s = time.monotonic()
    done = ward.gpuprov.json(*ward.up)["changed"]
    seconds = time.monotonic() - began_s
    for line in plan:
        assert line in done, "what the plan names is what is done, in the same words"
    assert ward.plan() == []
    assert ward.states() == ward.idle
    assert ward.whole.differences(ward.look()) == []
    after = ward.births()
    restarted = {name for name in ward.idle if births.get(name) != after[name]}
    assert restarted <= touched
    if not any(CASES[case][2] for case in cases):
        assert restarted == set(), "nothing had to be restarted"
    return seconds


def test_everything_at_once(ward: Ward) -> None:
    hiding = ("a node is stopped", "the munge key is gone", "the NAT rules are flushed")  # one of the others
    repair(ward, [case for case in CASES if case not in hiding])


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_one_thing(ward: Ward, ledger: Ledger, case: str) -> None:
    seconds = repair(ward, [case])
    ledger.add("repair", what=case, plan=CASES[case][1].replace("{second}", "NODE"), seconds=round(seconds, 1))


def cut_the_power(ward: Ward) -> None:
    """End the engine's daemon and everything of this cluster, with its links and rules, as a power cut does."""
    pids = [lxd(f"instances/{name}/state")["pid"] for name in ward.births()]
    dnsmasq = NETWORKS / ward.bridge / "dnsmasq.pid"
    killing.kill_engine()
    if dnsmasq.exists():
        found = re.search(r"pid: (\d+)", dnsmasq.read_text())
        pids += [int(found[1])] if found else []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for entry in json.loads(output("nft", "-j", "list", "chains"))["nftables"]:
        chain = entry.get("chain", {})
        if chain.get("table") in ("lxd", "gpuprov") and chain["name"].endswith(f".{ward.bridge}"):
            output("nft", "delete", "chain", chain["family"], chain["table"], chain["name"])
    for link in (ward.bridge, f"{ward.place.mark}1"):
        output("ip", "link", "delete", link)


@pytest.mark.parametrize("with_job", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_reboot(ward: Ward, ledger: Ledger, *, with_job: bool) -> None:
    births = ward.births()
    with ExitStack() as stack:
        if with_job:
            command = ("exec", ward.place.node(0), "--", "srun", "-N3", "sleep", "600")
            job = stack.enter_context(ward.gpuprov.start(*command))
            stack.callback(job.kill)
            deadline = time.monotonic() + BACK_S
            while set(ward.states().values()) & {"idle"}:
                assert time.monotonic() < deadline, ward.states()
        cut_the_power(ward)
    began_s = time.monotonic()
    ward.gpuprov("host", "prepare")  # what systemd does by itself, where it is
    deadline = began_s + BACK_S + FORGET_S * with_job
    while ward.states() != ward.idle:
        assert time.monotonic() < deadline, ward.states()
    seconds = time.monotonic() - began_s
    after = ward.births()
    assert all(after[name] != births[name] for name in ward.idle)
    names = sorted(ward.gpuprov.in_node(ward.place.node(0), "srun", "-N3", "hostname").split())
    assert names == list(ward.idle)
    before = ward.plan()
    done = ward.gpuprov.json(*ward.up)["changed"]
    assert done == before
    assert ward.whole.differences(ward.look()) == []
    assert ward.gpuprov.json(*ward.up)["unchanged"] is True
    what = "the power is cut, and a job ran on every node" if with_job else "the power is cut"
    ledger.add("repair", what=what, plan="; ".join(before) or "nothing to do", seconds=round(seconds, 1))


@pytest.mark.long  # LXD starts such a network within a minute
def test_an_engine_that_lost_its_name_server(ward: Ward) -> None:
    """Killed just after it started that, and before it wrote its pid down."""
    births = ward.births()
    killing.kill_engine()
    (NETWORKS / ward.bridge / "dnsmasq.pid").unlink()
    ward.gpuprov("host", "prepare")
    assert lxd(f"networks/{ward.bridge}")["status"] != "Created", "the lost one has the address"
    ward.gpuprov(*ward.up)
    assert lxd(f"networks/{ward.bridge}")["status"] == "Created"
    assert ward.whole.differences(ward.look()) == []
    assert ward.births() == births
