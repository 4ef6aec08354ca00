"""Verbs on clusters that span hosts, as they are typed on a machine that has no engine of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli import session
from gpuprov.cli.main import main
from gpuprov.core.errors import HostNotReady
from gpuprov.shapes.hardware import Machine
from tests.fakes.hosts_in_worlds import SINCE, HostsInWorlds, keep_keys_below
from tests.schemas import validate

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from tests.conftest import Recording

pytestmark = pytest.mark.slow

SPEC = """\
version: gpuprov/v1
hosts: [{name: hoff, internal_ip: 192.0.2.11}, {name: hinton, internal_ip: 192.0.2.12}]
nodes: {count: 4}
gpus: {mode: simulated}
"""
AWAY = 7


WHERE = {"hoff": "c[000-001]", "hinton": "c[002-003]"}


class Typing:
    """Somebody at the controller."""

    def __init__(self, hosts: HostsInWorlds, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.hosts, self.file = hosts, str(file)
        self._capsys = capsys
        self.errors = ""

    def type(self, *argv: str, expect: int = 0) -> str:
        here = self.hosts.controller
        code = main(list(argv), host=here)
        said = self._capsys.readouterr()
        self.errors = said.err
        assert code == expect, said.err
        return said.out

    def json(self, *argv: str, expect: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.type("--json", *argv, expect=expect))
        validate(document)
        return document


@pytest.fixture
def lab(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    return at_the_controller(tmp_path, recording, monkeypatch, capsys)


def at_the_controller(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """Of hoff and hinton, with a spec for a cluster over both."""
    keep_keys_below(tmp_path / "data", monkeypatch)
    hosts = HostsInWorlds(tmp_path, recording, ("hoff", "hinton"))
    monkeypatch.setattr(session, "remembered_hosts", lambda: hosts.machines)
    monkeypatch.setattr(session, "way_to_hosts", lambda *_: hosts)
    (tmp_path / "lab.yaml").write_text(SPEC)
    return Typing(hosts, tmp_path / "lab.yaml", capsys)


def test_up_shows_one_table_with_the_host_of_each_node(lab: Typing) -> None:
    assert any("hinton: create node c003" in line for line in lab.type("cluster", "plan", "-f", lab.file).splitlines())
    shown = lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    controller = next(line for line in shown.splitlines() if line.startswith("NODE"))
    assert controller.split()[:3] == ["NODE", "HOST", "STATUS"]
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("c00")] == [
        ["c000", "hoff"],
        ["c001", "hoff"],
        ["c002", "hinton"],
        ["c003", "hinton"],
    ]
    again = lab.json("cluster", "up", "--no-verify")
    assert (again["unchanged"], [host["status"] for host in again["hosts"]]) == (True, ["ready", "ready"])
    assert lab.json("cluster", "plan")["plan"] == []


def test_nodes_with_an_older_image_are_told_of_over_hosts_and_replaced_by_hand(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    Path(lab.file).write_text(f"{SPEC}image: {{python: [tqdm]}}\n")
    plan = ("cluster", "plan", "-f", lab.file)
    older = [f"{host}: {nodes}: image is older: lacks tqdm" for host, nodes in WHERE.items()]
    assert lab.json(*plan)["older"] == older
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    told = "\n".join(lab.hosts._reporter.lines)
    assert "older image, one after the other: gpuprov rm NODE; gpuprov cluster up\n" in told
    assert "--renew" not in told
    nodes = lab.json("cluster", "status")["nodes"]
    assert {(node["health"], node["work"]) for node in nodes} == {("old image: lacks tqdm", "idle")}
    for verb in ("up", "plan"):
        lab.type("cluster", verb, "--renew", expect=2)
        assert "fix: replace them one by one: gpuprov rm NODE; gpuprov cluster up" in lab.errors


def test_status_says_which_host_is_away_since_when(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    assert {node["work"] for node in lab.json("cluster", "status")["nodes"]} == {"idle"}
    lab.hosts.away = {"hinton"}
    told = lab.json("cluster", "status", expect=AWAY)
    assert [(host["name"], host["status"], host["away_since"]) for host in told["hosts"]] == [
        ("hoff", "ready", None),
        ("hinton", "away", SINCE),
    ]
    assert [node["status"] for node in told["nodes"]] == ["running", "running", "unreachable", "unreachable"]
    assert f"hinton is unreachable since {SINCE}" in lab.type("cluster", "status", expect=AWAY)
    up = lab.json("cluster", "up", "-n", "5", "--no-verify", expect=AWAY)
    assert up["error"]["exit_code"] == AWAY
    assert {node["name"]: node["host"] for node in up["nodes"]}["c004"] == "hoff"


def test_a_command_in_a_node_runs_on_its_host(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.attach_status = 5
    lab.type("exec", "c003", "--", "hostname", "-f", expect=5)
    ((host, command),) = lab.hosts.attached
    assert (host, command[1:]) == ("hinton", ("exec", "c003", "--", "hostname", "-f"))


@pytest.mark.parametrize(
    ("typed", "there"),
    [
        (("shell", "c003"), ("shell", "c003")),
        (("ssh", "c003", "--", "ls", "-l", "a b"), ("ssh", "c003", "--", "ls", "-l", "a b")),
        (("ssh", "c003"), ("ssh", "c003")),
        (("--json", "--quiet", "exec", "c003", "true"), ("--quiet", "--json", "exec", "c003", "--", "true")),
    ],
)
def test_what_needs_a_terminal_runs_on_the_host_of_the_node(
    lab: Typing, typed: tuple[str, ...], there: tuple[str, ...]
) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.asked.clear()
    lab.type(*typed, expect=5)
    ((host, command),) = lab.hosts.attached
    assert (host, command[1:]) == ("hinton", there)
    assert [verb for _, verb in lab.hosts.asked] == ["list", "list"]


VERBS_ON_A_NODE = [
    (("show", "c003"), "c003  running"),
    (("logs", "c003"), "c003 booted"),
    (("expose", "c003", "80"), "port 80 of the host (127.0.0.1 only) is forwarded to c003:80"),
    (
        ("expose", "c003", "80", "--port", "8080", "--listen", "0.0.0.0"),
        "port 8080 of the host (all addresses) is forwarded to c003:80",
    ),
    (("unexpose", "c003", "8080"), "unchanged"),
]


@pytest.mark.parametrize(("typed", "shown"), VERBS_ON_A_NODE)
def test_other_verbs_on_a_node_are_asked_of_its_host_alone(lab: Typing, typed: tuple[str, ...], shown: str) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.asked.clear()
    assert lab.type(*typed).splitlines()[0] == shown
    assert lab.hosts.asked[:3] == [("hoff", "list"), ("hinton", "list"), ("hinton", typed[0])]
    assert lab.json(*typed)["host"] == "hinton"
    lab.hosts.away = {"hinton"}
    lab.type(*typed, expect=AWAY)
    assert "no host that answers has a node c003" in lab.errors
    assert lab.hosts.attached == []


@pytest.mark.parametrize("typed", [typed for typed, _ in VERBS_ON_A_NODE])
def test_on_the_host_itself_the_same_is_shown_and_nobody_is_asked(lab: Typing, typed: tuple[str, ...]) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    there = lab.json(*typed)
    lab.hosts.controller.engines = lab.hosts.worlds["hinton"].host.engines
    if typed[0] == "expose":
        lab.type("unexpose", "c003", typed[4] if len(typed) > 3 else "80")
    lab.hosts.asked.clear()
    here = lab.json(*typed)
    if typed[0] == "show":
        assert (there["node"].pop("host"), bool(here["node"].pop("host"))) == ("hinton", True)
    assert {**here, "seconds": {}} == {**there, "host": lab.hosts.controller.name, "seconds": {}}
    assert lab.hosts.asked == []


def test_a_port_is_forwarded_there_and_no_longer(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.type("expose", "c003", "80", "--port", "8080")
    node = lab.json("show", "c003")["node"]
    assert node["exposed"] == [{"host_port": 8080, "node_port": 80, "listen": "127.0.0.1"}]
    lab.type("expose", "c002", "80", "--port", "8080", expect=2)
    assert "port 8080 of the host is already forwarded" in lab.errors
    assert lab.json("unexpose", "c003", "8080")["changed"] == ["port 8080 of the host is no longer forwarded"]
    assert lab.json("show", "c003")["node"]["exposed"] == []
    lab.hosts.asked.clear()
    lab.type("expose", "c003", "70000", expect=2)
    assert "70000 is not a port" in lab.errors
    lab.type("expose", "c003", "80", "--listen", "here", expect=2)
    assert "'here' is not an IPv4 address" in lab.errors
    assert lab.hosts.asked == []


def test_gpus_are_those_of_all_hosts_with_their_holders(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    told = lab.json("gpus")
    held = [(gpu["host"], gpu["label"], [holder["node"] for holder in gpu["holders"]]) for gpu in told["gpus"]]
    assert held == [
        ("hoff", "0", ["c000"]),
        ("hoff", "1", ["c001"]),
        ("hoff", "2", []),
        ("hoff", "3", []),
        ("hinton", "0", ["c002"]),
        ("hinton", "1", ["c003"]),
        ("hinton", "2", []),
        ("hinton", "3", []),
    ]
    assert [host["status"] for host in told["hosts"]] == ["ready", "ready"]
    shown = lab.type("gpus").splitlines()
    assert shown[0].split()[:2] == ["HOST", "GPU"]
    assert any(line.startswith("hinton") and "c003" in line for line in shown)
    lab.hosts.away = {"hinton"}
    told = lab.json("gpus", expect=AWAY)
    assert {gpu["host"] for gpu in told["gpus"]} == {"hoff"}
    assert told["hosts"][1]["away_since"] == SINCE
    assert "hinton is unreachable since" in told["error"]["evidence"]


def test_the_gpus_of_a_controller_with_an_engine_are_shown_as_well(lab: Typing) -> None:
    here = lab.hosts.worlds["hoff"]
    lab.hosts.controller.engines = here.host.engines
    lab.hosts.controller.observe = lambda _mode: here.gpus
    assert {gpu["host"] for gpu in lab.json("gpus")["gpus"]} == {"here", "hoff", "hinton"}
    lab.hosts.asked.clear()
    assert "hosts" not in lab.json("gpus", "--gpu-mode", "simulated")
    assert lab.hosts.asked == []


def test_a_host_whose_gpus_cannot_be_told_is_named(lab: Typing) -> None:
    def broken(_mode: object) -> HostGpus:
        raise HostNotReady("NVML does not respond", evidence="Unknown Error", fix="reload the driver")

    lab.hosts.worlds["hinton"].host.observe = broken
    told = lab.json("gpus", expect=AWAY)
    assert {gpu["host"] for gpu in told["gpus"]} == {"hoff"}
    assert "NVML does not respond: Unknown Error" in told["error"]["evidence"]


def test_hardware_is_that_of_all_hosts(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(machine="m", cpu="a CPU", threads=8, gpus=(), simulated=True, reason="no driver")
    monkeypatch.setattr("gpuprov.fleet.questions.hardware.ask_this_machine", lambda: machine)
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    told = lab.json("hardware")
    assert [(host["name"], host["hardware"]["threads"]) for host in told["hosts"]] == [("hoff", 8), ("hinton", 8)]
    assert [node["node"] for node in told["nodes"]] == ["c000", "c001", "c002", "c003"]
    lab.hosts.away = {"hoff"}
    told = lab.json("hardware", expect=AWAY)
    assert [(host["name"], host["hardware"] is None) for host in told["hosts"]] == [("hoff", True), ("hinton", False)]
    assert [node["node"] for node in told["nodes"]] == ["c002", "c003"]
    assert [line.split()[0] for line in lab.type("hardware", expect=AWAY).splitlines()] == [
        *("MACHINE", "m", "hinton", "c002", "c003")
    ]


def test_a_node_is_found_at_once_on_a_host_that_answers(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hinton"}
    lab.hosts.asked.clear()
    lab.type("exec", "c000", "--", "true", expect=5)
    assert lab.hosts.asked == [("hoff", "list")], "nobody waits for a host that is known to be away"
    assert lab.type("exec", "c003", "--", "true", expect=AWAY) == ""
    assert "no host that answers has a node c003" in lab.errors


def test_down_removes_what_is_on_all_hosts(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hinton"}
    told = lab.json("cluster", "down", "--yes", expect=AWAY)
    assert {line.partition(":")[0] for line in told["changed"]} == {"hoff"}
    lab.hosts.away = set()
    assert {line.partition(":")[0] for line in lab.json("cluster", "down", "--yes")["changed"]} == {"hinton"}


def test_a_file_that_says_less_takes_nothing_unasked(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    up = ("cluster", "up", "-f", lab.file, "--no-verify")
    for less, lost in (
        (SPEC.replace("count: 4", "count: 3"), "1 node with all data on its disk: c003"),
        (
            SPEC.replace(", {name: hinton, internal_ip: 192.0.2.12}", ""),
            "2 nodes with all data on their disks: c[002-003]",
        ),
    ):
        Path(lab.file).write_text(less)
        lab.type(*up, expect=2)
        assert f"says less than cluster lab has: this would be lost\nevidence: {lost}" in lab.errors
        assert len(lab.json("cluster", "status")["nodes"]) == 4
    lab.type(*up, "--yes")
    assert {node["host"] for node in lab.json("cluster", "status")["nodes"]} == {"hoff"}
    lab.type(*up, "-n", "3")
    assert "remove 1 node" in " ".join(lab.hosts._reporter.lines) or "remove 1 node" in lab.errors


def test_down_asks_before_it_removes_anything(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.type("snapshot", "c003", "good")
    lab.type("cluster", "down", "--force", expect=2)
    assert "the cluster lab would be removed" in lab.errors
    assert "hinton: 2 nodes with all data on their disks: c[002-003]" in lab.errors
    assert "hinton: 1 snapshot: good of c003" in lab.errors
    assert "with --drain to wait" not in lab.errors
    assert "gpuprov cluster down lab --yes" in lab.errors
    assert len(lab.json("cluster", "status")["nodes"]) == 4
    lab.type("cluster", "down", "--yes")


def test_down_says_that_no_folder_goes_with_it(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.type("cluster", "down", "--purge", "--yes", expect=2)
    assert "no folder is removed with cluster lab, which spans hosts; nothing was removed" in lab.errors
    assert "fix: without --purge: gpuprov cluster down lab" in lab.errors
    assert len(lab.json("cluster", "status")["nodes"]) == 4


def test_a_cluster_of_this_machine_alone_is_nobody_elses_matter(lab: Typing) -> None:
    lab.hosts.controller.engines = lab.hosts.worlds["hoff"].host.engines
    lab.hosts.worlds["hoff"].up(2)
    lab.hosts.asked.clear()
    assert len(lab.json("cluster", "status")["nodes"]) == 2
    lab.type("cluster", "down", "--yes")
    assert lab.hosts.asked == []


def test_list_has_the_nodes_of_all_hosts_that_answer(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    assert [(node["name"], node["host"]) for node in lab.json("list")["nodes"]] == [
        ("c000", "hoff"),
        ("c001", "hoff"),
        ("c002", "hinton"),
        ("c003", "hinton"),
    ]
    assert lab.type("list").split()[:3] == ["NODE", "HOST", "CLUSTER"]
    lab.hosts.away = {"hinton"}
    told = lab.json("list", expect=AWAY)
    assert ([node["name"] for node in told["nodes"]], told["error"]["exit_code"]) == (["c000", "c001"], AWAY)
