"""A cluster over two machines, from `host add` to `cluster down`, and one of them loses power."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.ansible_tools import ROOT, ansible, plain, write_inventory
from tests.e2e.conftest import BUDGET_S
from tests.e2e.controller import AWAY, add_hosts, controller_of
from tests.e2e.killing import Blow, strike
from tests.e2e.several_machines import SHARED
from tests.e2e.test_hosts_of_engines import JOB, PARAMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.places import Place

pytestmark = pytest.mark.long  # four minutes

HOSTS = ("hoff", "hinton")
SPEC = f"""\
version: gpuprov/v1
name: lab
hosts: [{{name: hoff}}, {{name: hinton}}]
nodes: {{count: 4}}
gpus: {{mode: simulated}}
share: {SHARED}
image: {{toolkit: true}}
unreachable: {{after_s: 5}}
"""
ALL = ["c000", "c001", "c002", "c003"]
SSSD = "[sssd]\ndomains = site\n[domain/site]\nid_provider = ldap\nldap_uri = ldap://127.0.0.1:{}\n"  # it is away
ASK_SSSD = "cd /etc/sssd; stat -c '%a %U' sssd.conf; grep ldap_uri sssd.conf; systemctl show -P MainPID sssd"
IDLE_S = 180
REFUSED, NOT_READY = 2, 3
EXAMPLES = ROOT / "examples"
WHERE = """\
import os, sys, time
time.sleep(3)  # so that each of the nodes gets a run
open(f"/shared/where-{sys.argv[1]}", "w").write(os.uname().nodename)
print("was on", os.uname().nodename)
"""


@pytest.fixture(scope="module")
def controller(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller_of(gpuprov, place, tmp_path_factory.mktemp("hosts"), dict.fromkeys(HOSTS, ()), SPEC) as made:
        yield made


@pytest.fixture(scope="module")
def other(gpuprov: Gpuprov, controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> Controller:
    """Another machine to type commands on: it has nothing of the first one but the key for ssh."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "run").mkdir()
    variables = {"HOME": folder, "XDG_DATA_HOME": folder / "data", "XDG_RUNTIME_DIR": folder / "run"}
    own = replace(gpuprov, environment={**gpuprov.environment, **{key: str(path) for key, path in variables.items()}})
    return add_hosts(own, controller.lab, folder, dict.fromkeys(HOSTS, ()), SPEC)


def test_nodes_of_two_machines_are_one_slurm(controller: Controller) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {name: (node["host"], node["slurm"], node["health"]) for name, node in nodes.items()} == {
        "c000": ("hoff", "idle", "ok"),
        "c001": ("hoff", "idle", "ok"),
        "c002": ("hinton", "idle", "ok"),
        "c003": ("hinton", "idle", "ok"),
    }
    for node in ("c000", "c003"):
        assert controller.srun(node, "-N4", "--gres=gpu:1", "hostname") == ALL
    links = controller.srun("c000", "-N4", "cat", "/sys/class/net/eth1/mtu")
    assert links == ["1450"] * 4


def test_a_second_run_changes_nothing(controller: Controller) -> None:
    again = controller("--json", "cluster", "up", "-f", controller.spec).document
    assert (again["changed"], again["unchanged"]) == ([], True)
    assert controller("--json", "cluster", "plan", "-f", controller.spec).document["plan"] == []
    assert controller("--json", "cluster", "up").document["unchanged"], "the hosts tell the spec themselves"


def test_verify_compares_the_machines(controller: Controller) -> None:
    told = controller("--json", "verify").document
    assert [(host["node"], host["verdict"]) for host in told["hosts"]] == [(name, "pass") for name in HOSTS]
    for host in told["hosts"]:
        checks = {check["id"]: check["status"] for check in host["checks"]}
        asked = ("host-answers", "host-version", "host-clock", "overlay-link", "overlay-mtu", "overlay-peers")
        assert [checks[name] for name in asked] == ["pass"] * len(asked)
    reached = {
        node["node"]: check["evidence"]
        for node in told["nodes"]
        for check in node["checks"]
        if check["id"] == "network-private"
    }
    assert reached == dict.fromkeys(ALL, "3 other nodes answer on eth1")
    machine = controller.lab.machines["hinton"]
    device = machine.run("sh", "-c", "ls /sys/class/net | grep gpvx").strip()
    machine.run("ip", "link", "set", device, "mtu", "1400")
    again = controller("--json", "verify", expect=1).document
    (host,) = [host for host in again["hosts"] if host["node"] == "hinton"]
    assert host["first_problem"] == "overlay-mtu"
    controller("cluster", "up")
    assert controller("--json", "verify").document["passed"]


def test_modules_of_ansible_reach_both_machines(controller: Controller) -> None:
    def module(name: str, arguments: str, *options: str) -> dict[str, Any]:
        argv = ("localhost", "-m", f"gpuprov.cluster.{name}", "-a", arguments, *options)
        said = ansible(controller.gpuprov, "ansible", *argv)
        result: dict[str, Any] = json.loads(said.partition(" => ")[2])
        return result

    again = module("cluster", f"file={controller.spec}")
    assert (again["changed"], [node["name"] for node in again["nodes"]]) == (False, ALL)
    assert any("create node c004" in line for line in module("cluster", "name=lab count=5", "--check")["changes"])
    told = module("verify", "cluster=lab")
    assert (told["passed"], [host["node"] for host in told["report"]["hosts"]]) == (True, list(HOSTS))


def test_plays_and_the_inventory_reach_nodes_of_both_machines(controller: Controller) -> None:
    own, folder = controller.gpuprov, controller.folder
    inventory = write_inventory(folder, ALL)
    listed = plain(json.loads(ansible(own, "ansible-inventory", "-i", inventory, "--list")))["_meta"]["hostvars"]
    assert {name: listed[name]["gpuprov_through"] for name in ALL} == {
        "c000": "hoff",
        "c001": "hoff",
        "c002": "hinton",
        "c003": "hinton",
    }
    assert ansible(own, "ansible", "-i", inventory, "tried", "-m", "ansible.builtin.ping").count("pong") == len(ALL)
    play = ("--json", "play", str(ROOT / "site.yml"), "-i", inventory, "--limit", "tried")
    for status in ("changed", "ok"):
        told = controller(*play).document["play"]
        assert {name: host["status"] for name, host in told["hosts"].items()} == dict.fromkeys(ALL, status)
    for name in ALL:
        assert "SIMULATED" in controller("exec", name, "--", "cat", "/etc/motd").stdout


def test_nodes_of_both_machines_share_a_folder(controller: Controller) -> None:
    write = ("runuser", "-u", "work", "--", "sh", "-c", "echo 42 >/shared/answer")
    controller("exec", "c000", "--", *write)
    assert controller("exec", "c003", "--", "runuser", "-u", "work", "--", "cat", "/shared/answer").stdout == "42\n"
    assert (controller.lab.shared / "answer").read_text() == "42\n"
    assert not list(controller.lab.shared.glob(".gpuprov-*")), "no mark is left"


def test_jobs_that_are_submitted_here_run_on_both_machines(controller: Controller) -> None:
    project = controller.folder / "project"
    project.mkdir()
    (project / "where.py").write_text(WHERE)
    options = ("--project", str(project), "--count", "4", "--gpus", "1")
    job = controller("submit", *options, "--", "python3", "where.py", "{n}").stdout.strip()
    rows = controller("--json", "jobs", "wait", job).document["jobs"]
    assert [row["state"] for row in rows] == ["done"] * 4
    assert sorted(row["node"] for row in rows) == ALL
    assert sorted((controller.lab.shared / f"where-{n}").read_text() for n in range(4)) == ALL
    assert controller("jobs", "logs", f"{job}.2").stdout == f"was on {rows[2]['node']}\n"
    assert controller("submit", "--no-project", "--wait", "--", "false", expect=1)
    (project / "out").symlink_to("/etc/passwd")
    assert "out of the project" in controller("submit", *options, "--", "true", expect=REFUSED).stderr


def test_a_grid_runs_on_both_machines_and_comes_back(controller: Controller) -> None:
    project = controller.folder / "grid"
    project.mkdir()
    (project / "params.py").write_text(PARAMS)
    (project / "job.py").write_text(JOB)
    told = controller("--json", "grid", "run", str(project)).document
    rows = controller("--json", "jobs", "wait", told["id"]).document["jobs"]
    assert [row["state"] for row in rows] == ["done"] * 6
    assert {row["node"] for row in rows} == set(ALL)
    controller("grid", "pull", str(project))
    assert len(list((project / "runs").rglob("done.json"))) == 6


def test_a_model_is_annealed_on_both_machines(controller: Controller) -> None:
    out = controller.folder / "annealed"
    model, conf = EXAMPLES / "anneal/ackley.py", EXAMPLES / "anneal/run.yaml"
    argv = ("anneal", "run", str(model), "--conf", str(conf), "--out", str(out), "--nodes", "4")
    (run,) = controller("--json", *argv).document["runs"]
    assert (run["state"], run["errors"]) == ("done", 0)
    assert sorted(part["node"] for part in run["parts"]) == ALL
    assert (out / "ackley/best.npz").is_file()


def test_a_program_has_workers_on_both_machines(controller: Controller) -> None:
    program, data = EXAMPLES / "kmeans/program", EXAMPLES / "kmeans/points.csv"
    argv = ("program", "run", str(program), "--data", str(data), "--set", "clusters=3", "--workers", "4")
    result = controller("--json", *argv).document["result"]
    assert sum(cluster["rows"] for cluster in result["result"]["clusters"]) == 300
    assert sorted(worker["node"] for worker in result["workers"]) == ALL


def test_a_folder_that_is_not_the_same_one_is_refused(controller: Controller) -> None:
    hinton = controller.lab.machines["hinton"]
    hinton.run("mount", "-t", "tmpfs", "none", SHARED)
    try:
        said = controller("cluster", "up", "-n", "6", expect=REFUSED).stderr
    finally:
        hinton.run("umount", SHARED)
    assert f"{SHARED} is not the same folder on all hosts" in said
    assert "hinton: a folder of user 0 on tmpfs none" in said


def test_it_grows_and_shrinks(controller: Controller) -> None:
    grown = controller.nodes("cluster", "up", "-n", "6")
    assert {node["slurm"] for node in grown.values()} == {"idle"}
    assert {name: grown[name]["host"] for name in ("c004", "c005")} == {"c004": "hoff", "c005": "hinton"}
    assert sorted(controller.nodes("cluster", "up", "-n", "4")) == ALL


def side_by_side(typed: Sequence[tuple[Controller, tuple[str, ...]]]) -> list[tuple[int, str]]:
    """Exit codes and errors of commands that start at once on several machines."""
    running = [one.gpuprov.start(*argv) for one, argv in typed]
    told = [(process.communicate(timeout=BUDGET_S)[1], process.returncode) for process in running]
    assert "Traceback" not in str(told)
    return [(code, stderr) for stderr, code in told]


def test_two_controllers_at_once_make_one_cluster(controller: Controller, other: Controller) -> None:
    assert controller.master_of("hoff") != other.master_of("hoff"), "each has a connection of its own"
    assert other.nodes("cluster", "status") == controller.nodes("cluster", "status")
    up = ("cluster", "up", "-n", "6")
    ended = side_by_side([(controller, up), (other, up)])
    assert {code for code, _ in ended} <= {0, AWAY}, ended
    nodes = controller.nodes(*up)
    assert other("--json", *up).document["unchanged"]
    homes = {name: node["host"] for name, node in nodes.items()}
    assert homes == {
        **dict.fromkeys(("c000", "c001", "c004"), "hoff"),
        **dict.fromkeys(("c002", "c003", "c005"), "hinton"),
    }
    for host, machine in controller.lab.machines.items():
        there = machine.run("lxc", "list", "-f", "csv", "-c", "n", "c0").split()
        assert sorted(there) == sorted(name for name, home in homes.items() if home == host)
    assert controller.srun("c000", "-N6", "hostname") == sorted(nodes)
    controller("cluster", "up", "-n", "4")


def test_two_controllers_at_once_lease_no_gpu_twice(controller: Controller, other: Controller) -> None:
    """Each machine has two GPUs that no node holds: enough for one of these nodes."""
    ask = ("create-node", "--gpus", "2", "--exclusive")
    typed = [(controller, (*ask, "left")), (other, (*ask, "right"))]
    ended = side_by_side(typed)
    assert {code for code, _ in ended} <= {0, REFUSED, AWAY}, ended
    for (code, _), (one, argv) in zip(ended, typed, strict=True):
        if code:
            one(*argv)
    controller(*ask, "c010", expect=REFUSED)
    held = [gpu for gpu in controller("--json", "gpus").document["gpus"] if gpu["host"] in HOSTS]
    assert [len(gpu["holders"]) for gpu in held] == [1] * 8
    homes = {holder["node"]: gpu["host"] for gpu in held for holder in gpu["holders"]}
    assert {homes["left"], homes["right"]} == set(HOSTS)
    assert controller("--json", "cluster", "up").document["unchanged"]
    other("rm", "left", "right")
    assert controller("--json", "cluster", "up").document["unchanged"]


def test_two_controllers_at_once_make_nodes_on_two_machines(controller: Controller, other: Controller) -> None:
    typed = [
        (one, ("create-node", name, "--host", host))
        for one, name, host in ((controller, "left", "hoff"), (other, "right", "hinton"))
    ]
    ended = side_by_side(typed)
    assert {code for code, _ in ended} <= {0, REFUSED, AWAY}, ended
    for (code, stderr), (one, argv) in zip(ended, typed, strict=True):
        if code:
            assert "fix: run the same command again" in stderr
            one(*argv)
    nodes = controller.nodes("cluster", "status")
    assert len({node["private_address"] for node in nodes.values()}) == len(nodes) == 6
    assert controller.srun("c000", "-N6", "hostname") == sorted(nodes)
    assert other("--json", "cluster", "up").document["unchanged"]
    other("rm", "left", "right")
    assert sorted(controller.nodes("cluster", "status")) == ALL


def test_a_changed_host_key_is_refused_and_who_is_not_root_is_told(controller: Controller, other: Controller) -> None:
    machine, address, key = controller.lab.machines["hinton"], controller.lab.addresses["hinton"], controller.lab.key
    show = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2"
    known = machine.run("sh", "-c", show).strip()
    os.kill(other.master_of("hinton"), signal.SIGTERM)
    machine.run("sh", "-c", "cp -a /etc/ssh /etc/kept; rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")
    try:
        shown = machine.run("sh", "-c", show).strip()
        for argv in (("host", "add", "hinton"), ("host", "show", "hinton")):
            said = other(*argv, expect=NOT_READY).stderr
            assert "the host key of hinton has changed" in said
            assert f"known: {known}" in said
            assert f"shown by the host: {shown}" in said
        told = other("--json", "cluster", "status", expect=AWAY).document
        assert "the host key of hinton has changed" in told["error"]["evidence"]
    finally:
        machine.run("sh", "-c", "rm -r /etc/ssh; mv /etc/kept /etc/ssh; systemctl restart ssh")
    machine.run("sh", "-c", "useradd -m alice && cp -r /root/.ssh /home/alice/ && chown -R alice /home/alice/.ssh")
    way = ("--address", address, "--user", "alice", "--identity-file", str(key))
    said = other("host", "add", "third", *way, expect=NOT_READY).stderr
    assert "ssh logs in as uid 1000, and root is needed" in said
    assert f"gpuprov host add third --address {address} --user root" in said
    assert [host["name"] for host in other("--json", "host", "list").document["hosts"]] == list(HOSTS)
    assert other.nodes("cluster", "status") == controller.nodes("cluster", "status")


def test_gpus_of_all_machines_with_their_holders(controller: Controller) -> None:
    told = controller("--json", "gpus").document
    holders = {holder["node"]: gpu["host"] for gpu in told["gpus"] for holder in gpu["holders"]}
    assert holders == {"c000": "hoff", "c001": "hoff", "c002": "hinton", "c003": "hinton"}
    assert controller("gpus").stdout.split()[:2] == ["HOST", "GPU"]


def test_verbs_on_a_node_of_another_machine(controller: Controller) -> None:
    assert controller("--json", "show", "c003").document["node"]["name"] == "c003"
    assert controller("ssh", "c003", "--", "hostname").stdout.split() == ["c003"]
    (controller.folder / "note").write_text("42")
    controller("cp", str(controller.folder / "note"), "c003:/root/")
    controller("cp", "c003:/root/note", str(controller.folder / "back"))
    assert (controller.folder / "back").read_text() == "42"
    assert controller("--json", "stop", "c003").document["changed"] == ["hinton: stopped c003"]
    controller("clone", "c003", "c007")
    assert controller("exec", "c007", "--", "cat", "/root/note").stdout == "42"
    assert controller.srun("c000", "-w", "c007", "hostname") == ["c007"]
    controller("rm", "c007")
    assert controller("--json", "start", "c003").document["changed"][0] == "hinton: started c003"
    assert controller.srun("c000", "-N4", "hostname") == ALL


def test_a_job_keeps_its_node_on_whichever_machine_it_is(controller: Controller) -> None:
    controller.begin_job("c003")
    controller("rm", "c003", expect=2)
    assert "there are jobs on" in controller("stop", "c003", expect=2).stderr
    removed = controller("--json", "rm", "c001", "c003", "--force").document["changed"]
    assert {"hoff: removed c001", "hinton: removed c003"} <= set(removed)
    assert controller.srun("c000", "-N2", "hostname") == ["c000", "c002"]
    for node in ("c000", "c002"):
        assert "NodeName=c003" not in controller("exec", node, "--", "cat", "/etc/slurm/slurm.conf").stdout
    again = controller.nodes("cluster", "up")
    assert {name: node["slurm"] for name, node in again.items()} == dict.fromkeys(ALL, "idle")


def test_a_node_goes_where_its_gpus_are(controller: Controller) -> None:
    """Each machine has four simulated GPUs, and two of them are shared by the cluster's nodes."""
    first = controller("--json", "create-node", "c008", "--gpus", "2", "--exclusive").document["changed"]
    (home,) = (line.partition(":")[0] for line in first if "created node c008" in line)
    other = next(name for name in HOSTS if name != home)
    second = controller("--json", "create-node", "c009", "--gpus", "2", "--exclusive").document["changed"]
    assert any(line.startswith(f"{other}: created node c009") for line in second)
    controller("create-node", "c010", "--gpus", "2", "--exclusive", expect=2)
    assert controller.srun("c000", "-w", "c[008-009]", "-N2", "hostname") == ["c008", "c009"]
    assert controller("--json", "cluster", "up").document["unchanged"]
    controller("rm", "c008", "c009")
    assert sorted(controller.nodes("cluster", "status")) == ALL


def test_a_machine_can_leave_and_come_back(controller: Controller) -> None:
    alone = controller.folder / "alone.yaml"
    alone.write_text(SPEC.replace(", {name: hinton}", ""))
    controller.begin_job("c003")
    controller("cluster", "up", "-f", str(alone), "--yes", expect=2)
    nodes = controller.nodes("cluster", "up", "-f", str(alone), "--yes", "--force")
    assert {name: (node["host"], node["slurm"]) for name, node in nodes.items()} == dict.fromkeys(ALL, ("hoff", "idle"))
    assert "RUNNING" not in controller.lab.machines["hinton"].run("lxc", "list", "-f", "csv")
    assert controller.srun("c000", "-N4", "hostname") == ALL
    controller("rm", "c002", "c003")
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {name: nodes[name]["host"] for name in ("c002", "c003")} == {"c002": "hinton", "c003": "hinton"}


def test_a_job_outlasts_a_cut_of_the_network(controller: Controller) -> None:
    controller("exec", "c000", "--", "sbatch", "-N4", "--wrap", "srun sh -c 'sleep 75; hostname'", "-o", "/root/cut")
    waiting = "until squeue -h -t R | grep -q .; do sleep 0.2; done; sleep 2"
    controller("exec", "c000", "--", "timeout", "60", "sh", "-c", waiting)
    with controller.lab.cut_off("hinton"):
        time.sleep(60)
    waiting = "while squeue -h | grep -q .; do sleep 1; done; sort /root/cut; sinfo -h -o %T | sort -u"
    said = controller("exec", "c000", "--", "timeout", "120", "sh", "-c", waiting)
    assert said.stdout.split() == [*ALL, "idle"]


def test_a_machine_without_power_is_unreachable_and_the_other_one_works(controller: Controller) -> None:
    controller.lab.machines["hinton"].lose_power()
    told = controller("--json", "cluster", "status", expect=AWAY).document
    assert [host["status"] for host in told["hosts"]] == ["ready", "away"]
    assert "unreachable since" in told["error"]["evidence"]
    status = {node["name"]: node["status"] for node in told["nodes"]}
    assert status == {"c000": "running", "c001": "running", "c002": "unreachable", "c003": "unreachable"}
    assert controller.srun("c000", "-N2", "-w", "c[000-001]", "hostname") == ALL[:2]
    assert "c003" in controller("cluster", "up", expect=AWAY).stdout
    head = controller.lab.machines["hoff"]

    def marked() -> bool:
        controller("cluster", "up", expect=AWAY)
        said = head.run("lxc", "exec", "c000", "--", "sinfo", "-h", "-N", "-o", "%N %T %E").splitlines()
        down = [line.split()[0] for line in said if "gpuprov: host hinton unreachable since" in line]
        return down == ALL[2:]

    head.wait_for(marked, within_s=IDLE_S)


def test_it_is_back_when_it_has_power(controller: Controller) -> None:
    machine = controller.lab.machines["hinton"]
    machine.boot()
    machine.wait_for(lambda: machine.run("sh", "-c", "lxc list -f csv -c s | grep -c RUNNING || true").strip() == "2",
                     within_s=IDLE_S)  # fmt: skip
    states = "sinfo -h -N -o %T | sort -u"  # no command of gpuprov: the machine itself restores its overlay
    head = controller.lab.machines["hoff"]
    head.wait_for(lambda: head.run("lxc", "exec", "c000", "--", "sh", "-c", states).split() == ["idle"],
                  within_s=IDLE_S)  # fmt: skip
    assert controller.srun("c003", "-N4", "hostname") == ALL
    assert controller("--json", "verify").document["passed"]
    assert controller("--json", "cluster", "up").document["unchanged"]


def kill(controller: Controller, victim: str, host: str, argv: Sequence[str], step: str) -> None:
    """Kill one of the processes that serve a command, at this step of it."""
    machine = controller.lab.machines[host]
    hits = {
        "connection": lambda: os.kill(controller.master_of(host), signal.SIGKILL),
        "member": lambda: machine.run("pkill", "--signal", "KILL", "--full", "gpuprov member$"),
    }
    blow = Blow(how="host" if victim in hits else "SIGKILL", step=step)
    stopped = strike(controller.gpuprov, argv, blow, on_host=hits.get(victim))
    assert stopped.reached, stopped
    assert stopped.exit_code == (AWAY if victim in hits else -signal.SIGKILL), stopped


VICTIMS = ("connection", "member", "command")


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_while_it_grows(controller: Controller, victim: str) -> None:
    up = ("cluster", "up", "-n", "6", "--no-verify")
    controller("cluster", "up", "-n", "4", "--no-verify")
    kill(controller, victim, "hinton", up, "hinton: nodes begins")
    grown = controller.nodes(*up)
    assert {name: (node["host"], node["slurm"]) for name, node in grown.items()} == {
        **dict.fromkeys(("c000", "c001", "c004"), ("hoff", "idle")),
        **dict.fromkeys(("c002", "c003", "c005"), ("hinton", "idle")),
    }
    assert controller("--json", *up).document["unchanged"]
    assert controller.srun("c005", "-N6", "hostname") == sorted(grown)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("host", HOSTS)
def test_killed_while_it_is_removed(controller: Controller, victim: str, host: str) -> None:
    controller("cluster", "up", "-f", controller.spec, "--no-verify", "--yes")
    down = ("cluster", "down", "--yes", "--force")
    kill(controller, victim, host, down, f"{host}: nodes begins")
    done = controller(*down)
    nothing_is_left(controller, done.all)
    assert controller("--json", *down).document["unchanged"]


def test_down_removes_all_of_it(controller: Controller) -> None:
    controller("cluster", "up", "-f", controller.spec, "--no-verify", "--yes")
    controller("snapshot", "c003", "good")
    controller.begin_job("c002")
    asked = controller("cluster", "down", expect=REFUSED).stderr
    assert "hinton: 1 snapshot: good of c003" in asked
    assert re.search("there are jobs on .*: job [0-9]+ of root .* on c002", asked)
    assert "with --force to end them" in asked
    done = controller("--json", "cluster", "down", "--yes", "--force")
    assert {line.partition(":")[0] for line in done.document["changed"]} == set(HOSTS)
    nothing_is_left(controller, done.all)


def test_nodes_of_both_machines_get_a_site_s_sssd_conf_and_keep_it(controller: Controller) -> None:
    conf, spec = controller.folder / "sssd.conf", controller.folder / "people.yaml"
    up = ("cluster", "up", "-f", str(spec), "--no-verify")

    def daemons(port: int, *nodes: str) -> list[str]:
        said = [controller("exec", node, "--", "sh", "-c", ASK_SSSD).stdout.splitlines() for node in nodes]
        assert [one[:2] for one in said] == [["600 root", f"ldap_uri = ldap://127.0.0.1:{port}"]] * len(nodes)
        return [one[2] for one in said]

    spec.write_text(f"{SPEC}sssd: sssd.conf\n")
    conf.write_text(SSSD.format(2))
    controller(*up)
    first = daemons(2, *ALL)
    assert "unchanged" in controller(*up).stdout
    conf.write_text(SSSD.format(3))
    assert "hinton: renew sssd on c[002-003]" in controller(*up).stdout
    assert not [pid for pid, before in zip(daemons(3, *ALL), first, strict=True) if pid in ("0", before)]
    controller("create-node", "c007", "--host", "hinton", "--gpus", "0")
    conf.unlink()
    for verb in ("stop", "start"):
        controller(verb, "c001", "c002", "c007")
    assert "0" not in daemons(3, "c001", "c002", "c007")
    controller("rm", "c007")
    controller("cluster", "up", "-f", controller.spec, "--no-verify")
    controller.srun("c000", "-N4", "sh", "-c", "! systemctl -q is-active sssd && [ ! -e /etc/sssd/sssd.conf ]")
    controller("cluster", "down", "--yes", "--force")


def nothing_is_left(controller: Controller, said: str) -> None:
    for machine in controller.lab.machines.values():
        assert "RUNNING" not in machine.run("lxc", "list", "-f", "csv"), said
        assert not machine.run("sh", "-c", "ls /sys/class/net | grep -E 'gpvx|gpbr' || true").strip(), said
