"""The README's first command on a machine that was just installed, a power cut on its first day, and `host undo`."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.machine import ROOT, container, virtual_machine
from tests.transcript import is_as_shown, read_transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.machine import Machine
    from tests.e2e.places import Place

README = ROOT / "README.md"
NODES = [f"c00{number}" for number in range(4)]
JOB = "outlives-the-cut"
STATE = "/var/lib/slurm/slurmctld/job_state"  # Slurm writes it every few seconds
WORKING = {"idle", "allocated", "mixed"}
UNIT = "/etc/systemd/system/gpuprov-restore-{}.service"
THEIRS = {
    "/etc/apt/preferences.d/site": "Package: nothing\nPin: release n=nowhere\nPin-Priority: 1\n",
    "/etc/apt/sources.list.d/site.list": "# none\n",
    "/etc/sysctl.d/90-site.conf": "# none\n",
    "/etc/systemd/system/docker.service.d/site.conf": "[Unit]\n",
    "/etc/systemd/system/site.service": "[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n",
}
# An engine's objects, where it is there.
MAKE_THEIRS = """
for client in lxc incus; do
    command -v $client >/dev/null || continue
    $client profile create theirs
    $client network create theirs-$client ipv4.address=none ipv6.address=none
done
if command -v docker; then
    docker network create theirs
    iptables -I DOCKER-USER -i theirs+ -j ACCEPT
fi
systemctl --quiet enable site.service
"""
LOOK_AT_THEIRS = f"""
cat {" ".join(THEIRS)} && ls /etc/systemd/system/multi-user.target.wants/site.service
{{
    for client in lxc incus; do $client profile list --format csv; $client network list --format csv; done
    docker network ls --format '{{{{.Name}}}}'
    iptables -S DOCKER-USER
}} | grep theirs
"""
# What has gpuprov's name, or says it, on disk, in the kernel and in systemd's memory, and folders that were for it. Not
# logs, what verbs leave in /tmp, and the profiles that LXD keeps where there is no AppArmor.
PASSED_OVER = ("/root", "/tmp", "/var/log", "/var/cache/gpuprov", "*/apparmor")
TRACES = f"""
find / -xdev '(' {" -o ".join(f"-path '{path}'" for path in PASSED_OVER)} ')' -prune -o -name '*gpuprov*' -print
grep -rsI gpuprov /etc
iptables-save | grep gpuprov
nft list tables | grep gpuprov
ls -d /sys/class/net/gpbr*
cd /etc/systemd/system/multi-user.target.wants && ls lxd.service incus.service
find /etc/systemd/system -mindepth 1 -type d -empty
systemctl list-units --all --plain --no-legend 'gpuprov*'
systemctl show --property Wants,ExecStartPre,NeedDaemonReload lxd incus docker | grep -E 'gpuprov|=yes'
apt-cache policy | grep backports
exit 0
"""
KEPT = ["/srv/gpuprov", "/usr/local/bin/gpuprov", "/var/lib/gpuprov"]  # results, what `make` made, the host's lock


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((container, "bookworm", ()), id="container"),
        pytest.param(
            (container, "bookworm", ("incus", "docker")), id="container, three engines", marks=pytest.mark.long
        ),
        pytest.param(
            (container, "trixie", ("incus", "docker")),
            id="container, Debian 13, three engines",
            marks=pytest.mark.long,
        ),
        pytest.param((virtual_machine, "bookworm", ()), id="virtual machine", marks=pytest.mark.long),
        pytest.param((virtual_machine, "trixie", ()), id="virtual machine, Debian 13", marks=pytest.mark.long),
    ],
)
def machine(
    request: pytest.FixtureRequest,
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is there
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    kind, suite, more_engines = request.param
    with kind(place, folder, suite) as made:
        put_theirs(made)
        made.run("make", "up")
        for engine in more_engines:
            made.run("gpuprov", "host", "prepare", "--engine", engine)
            made.run("gpuprov", "cluster", "up", "--name", engine, "-n", "2", "--engine", engine)
        yield made
    shutil.rmtree(folder)


def put_theirs(machine: Machine) -> None:
    """Somebody else's files, beside those that `host prepare` writes."""
    for path, text in THEIRS.items():
        machine.run("sh", "-c", f"mkdir -p $(dirname {path}) && cat >{path}", stdin=text.encode())


def nodes(machine: Machine) -> list[dict[str, Any]]:
    """The nodes of all clusters, as `list` and `cluster status` show them."""
    listed = json.loads(machine.run("gpuprov", "--json", "list"))["nodes"]
    clusters = sorted({node["cluster"] for node in listed})
    shown = [json.loads(machine.run("gpuprov", "--json", "cluster", "status", cluster)) for cluster in clusters]
    return [node for cluster in shown for node in cluster["nodes"]]


def test_make_up_makes_four_nodes(machine: Machine) -> None:
    found = nodes(machine)
    assert {(node["slurm"], node["health"]) for node in found} == {("idle", "ok")}
    assert [node["name"] for node in found if node["engine"] == "lxd"] == NODES
    assert sorted(machine.run("gpuprov", "exec", NODES[0], "--", "srun", "-N4", "hostname").split()) == NODES
    assert json.loads(machine.run("gpuprov", "--json", "cluster", "up"))["unchanged"] is True


def test_the_first_hour_is_as_the_readme_shows_it(machine: Machine) -> None:
    """Every command, typed in order; what fails is shown with its errors."""
    folder = "."
    others = [node["name"] for node in nodes(machine) if node["cluster"] != "lab"]
    for typed in read_transcript(README.read_text()):
        if typed.command.startswith("cd "):
            folder = f"{folder}/{typed.command.removeprefix('cd ')}"
            continue
        line = f"cd {folder} && {{ {typed.command}; }} 2>/tmp/said || cat /tmp/said"
        printed = machine.run("sh", "-c", line)
        assert is_as_shown(printed, typed.shown), f"$ {typed.command}\n{printed}"
    assert [node["name"] for node in nodes(machine)] == others
    machine.run("make", "up")


def first_nodes(machine: Machine) -> dict[str, str]:
    """One node of each cluster."""
    return {node["cluster"]: node["name"] for node in reversed(nodes(machine))}


def is_kept(machine: Machine, controller: str) -> bool:
    """Whether the job is on the disk."""
    look = f"grep -qs {JOB} {STATE} && sync && echo yes || true"
    return machine.run("gpuprov", "exec", controller, "--", "sh", "-c", look) == "yes\n"


def look_around(machine: Machine, ports: Iterable[int]) -> dict[str, object]:
    """What comes back by itself, as docs/host.md has it, but for daemons and jobs."""
    connect = "; ".join(f"socket.create_connection(('127.0.0.1', {port}), 9).recv(4)" for port in ports)
    return {
        "nodes": [(node["name"], node["address"], node["gpus"]) for node in nodes(machine)],
        "leases": json.loads(machine.run("gpuprov", "--json", "gpus"))["gpus"],
        "isolation": sorted(machine.run("sh", "-c", "nft list table inet gpuprov | grep -o 'chain.*'").split()),
        "passage": machine.run("sh", "-c", "iptables-save | grep -c gpuprov || true"),
        "exposed ports": machine.run("python3", "-c", f"import socket; {connect}"),
    }


def test_everything_is_back_after_a_power_cut_with_nobody_there(machine: Machine) -> None:
    """No engine was restarted since it was installed, and nobody asks one anything until the nodes' daemons run."""
    there, firsts = len(nodes(machine)), first_nodes(machine)
    batch = ("sbatch", "--job-name", JOB, "--wrap", "sleep 600", "--nodes", "2", "--output", "/dev/null")
    ports = {node: 7000 + number for number, node in enumerate(firsts.values())}
    for node, port in ports.items():
        machine.run("gpuprov", "exec", node, "--", *batch)
        machine.run("gpuprov", "expose", node, "22", "--port", str(port))
        machine.run("gpuprov", "exec", node, "--", "sh", "-c", f"echo {JOB} >/shared/kept; sync")
    before = look_around(machine, ports.values())
    for node in firsts.values():
        machine.wait_for(partial(is_kept, machine, node), within_s=60)
    machine.lose_power()
    machine.boot()
    count = ("sh", "-c", "pgrep -c -x slurmd || true")
    machine.wait_for(lambda: machine.run(*count).strip() == str(there), within_s=60)
    machine.wait_for(lambda: {node["slurm"].rstrip("*") for node in nodes(machine)} <= WORKING, within_s=60)
    assert look_around(machine, ports.values()) == before
    for node in ports:
        assert machine.run("gpuprov", "exec", node, "--", "cat", "/shared/kept") == f"{JOB}\n"
    queue = ("squeue", "--noheader", "--format=%j %T")
    queues = {cluster: machine.run("gpuprov", "exec", node, "--", *queue).split() for cluster, node in firsts.items()}
    assert all(found in ([JOB, "PENDING"], [JOB, "RUNNING"]) for found in queues.values()), queues
    for cluster, node in firsts.items():
        machine.run("gpuprov", "unexpose", node, str(ports[node]))
        machine.run("gpuprov", "exec", node, "--", "scancel", "--user", "root")
        assert json.loads(machine.run("gpuprov", "--json", "verify", "--cluster", cluster))["verdict"] == "pass"


def test_undo_takes_back_what_prepare_made_and_nothing_else(machine: Machine) -> None:
    machine.run("sh", "-ec", MAKE_THEIRS)
    engines = {node["engine"]: node["cluster"] for node in nodes(machine)}
    before = machine.run("sh", "-c", TRACES).splitlines()
    assert {UNIT.format(engine) for engine in engines} < set(before)
    theirs = machine.run("sh", "-c", LOOK_AT_THEIRS)
    for engine, cluster in engines.items():
        machine.run("gpuprov", "cluster", "down", cluster, "--yes")
        for image in json.loads(machine.run("gpuprov", "--json", "image", "list"))["images"]:
            if image["engine"] == engine:
                machine.run("gpuprov", "image", "rm", image["name"], "--engine", engine)
        assert machine.run("gpuprov", "host", "undo", "--engine", engine) != "unchanged\n"
        assert machine.run("gpuprov", "host", "undo", "--engine", engine) == "unchanged\n"
    assert sorted(machine.run("sh", "-c", TRACES).splitlines()) == KEPT
    assert machine.run("sh", "-c", LOOK_AT_THEIRS) == theirs
