"""A cluster in Docker, Slurm included: made, grown, restarted, refused what cannot be, and removed without a trace."""

from __future__ import annotations

import json
import os
import re
import signal
import socketserver
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.docker_labels import LABELS_OF
from gpuprov.core.names import fold
from tests.e2e.conftest import ONE_CLUSTER, links_of_tests, output, rules_of_tests
from tests.e2e.groups import group_of, others_of
from tests.e2e.places import PLACES
from tests.e2e.test_bundle import secrets_of, unpack
from tests.e2e.test_engine import wait_for_end
from tests.e2e.test_refusals import has_three_parts, link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

PLACE, BESIDE = PLACES["docker"], PLACES["docker_beside"]
CLUSTER = PLACE.cluster
NODES = [PLACE.node(number) for number in range(4)]
FOREIGN = PLACE.node(4)
IDLE = dict.fromkeys(NODES, "idle")
PID_FILE = Path("/run/gpuprov/docker.pid")  # of a daemon that `host prepare --engine docker` started
UP = ("cluster", "up", "--name", CLUSTER)
CREATE = ("create-node", "--cluster", CLUSTER, "--engine", "docker", "--gpu-mode", "simulated")
CONTRACT = "/gpt-"  # of the contract tests in the same run; they end when the engine is restarted here
IMAGES = ("gpuprov-image:", "gpuprov-rootfs:")  # stay, and others build them meanwhile


def spec_of(folder: Path, place: Place = PLACE, *, nodes: str = "", **network: str) -> str:
    path = folder / f"{place.cluster}.yaml"
    path.write_text(place.spec(count=4, nodes=nodes, engine="docker", **network))
    return str(path)


class DockerWorld:
    """What must not change behind anybody's back, asked of Docker itself and of the host."""

    def __init__(self, client: Any, keys: Path) -> None:
        self.client = client
        self._keys = keys
        self._others = others_of(group_of("docker"))
        self._seen: set[str] = set()  # ids of what concerns us, those that are gone by now too

    def look(self) -> dict[str, object]:
        containers = [self.client.inspect_container(item["Id"]) for item in self.client.containers(all=True)]
        networks = self.client.networks()
        self._seen |= {item["Id"] for item in containers if _concerns_us(item["Config"]["Labels"])}
        self._seen |= {item["Id"] for item in networks if _concerns_us(item["Labels"])}
        images = [tag for image in self.client.images(all=True) for tag in image["RepoTags"] or [image["Id"]]]
        return {
            "containers": {
                item["Name"]: (item["Id"], item["State"]["Status"], item["HostConfig"], item["Config"])
                for item in containers
                if _concerns_us(item["Config"]["Labels"]) and not item["Name"].startswith(CONTRACT)
            },
            "networks": {
                item["Name"]: (item["Id"], item["Labels"], item["Options"])
                for item in networks
                if _concerns_us(item["Labels"]) and item["Name"] != "bridge"  # made anew when the engine starts
                if (item["Labels"] or {}).get(LABELS_OF) in {None, *self._seen}  # a node's changed labels name no owner
            },
            "volumes": [item for item in self.client.volumes()["Volumes"] or () if not self._is_theirs(item)],
            "images": sorted(tag for tag in images if not tag.startswith(IMAGES)),
            "links": links_of_tests(self._others, besides=ONE_CLUSTER),
            "rules": rules_of_tests(self._others, besides=ONE_CLUSTER),
            "iptables": rules_of_tests(self._others, "iptables-save", besides=ONE_CLUSTER),
            "keys": sorted(str(path) for path in self._keys.rglob("*") if path.is_file()),
        }

    def _is_theirs(self, volume: dict[str, Any]) -> bool:
        """Whether it is another group's, which comes and goes meanwhile."""
        return any(place.has(volume["Name"], volume["Labels"] or {}) for place in self._others)


def _concerns_us(labels: dict[str, str] | None) -> bool:
    owner = (labels or {}).get("gpuprov.cluster")
    return owner is None or owner == CLUSTER


@pytest.fixture(scope="module")
def world(gpuprov: Gpuprov, place: Place, docker: Any) -> DockerWorld:  # noqa: ARG001 - swept before we look
    return DockerWorld(docker, gpuprov.folder / "data")


@pytest.fixture(scope="module")
def bare(world: DockerWorld) -> dict[str, object]:
    """The world before the cluster."""
    return world.look()


@pytest.fixture(scope="module", autouse=True)
def cluster(gpuprov: Gpuprov, bare: dict[str, object]) -> Iterator[Finished]:  # noqa: ARG001 - looked at before
    """Four nodes, for all tests; each leaves them as it found them."""
    yield gpuprov("--json", "cluster", "up", "-f", spec_of(gpuprov.folder))
    gpuprov("cluster", "down", CLUSTER, "--yes", "--engine", "docker")


def states(gpuprov: Gpuprov) -> dict[str, str]:
    return {row["name"]: row["work"] for row in gpuprov.json("cluster", "status", CLUSTER)["nodes"]}


def wait_idle(gpuprov: Gpuprov, *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while (seen := states(gpuprov)) != IDLE:
        assert time.monotonic() < deadline, seen


def test_up_makes_four_idle_nodes_that_verify_passes(gpuprov: Gpuprov, cluster: Finished) -> None:
    document = cluster.document
    assert [line for line in document["changed"] if line.startswith("create node")] == [
        f"create node {PLACE.node(n)} {PLACE.address(0, n + 2)} role slurm, 1 GPU shared (simulated)" for n in range(4)
    ]
    assert "SIMULATED" in cluster.stderr
    assert [(row["engine"], row["work"], row["health"]) for row in document["nodes"]] == [("docker", "idle", "ok")] * 4
    assert {check["status"] for node in document["verify"]["nodes"] for check in node["checks"]} <= {"pass", "skip"}
    assert document["verify"]["verdict"] == "pass"
    addresses = {"eth0": f"{PLACE.address(0, 3)}/24", "eth1": f"{PLACE.address(1, 2)}/24"}
    assert gpuprov.json("show", NODES[1])["node"]["addresses"] == addresses


def test_slurm_runs_jobs_and_hands_out_what_there_is(gpuprov: Gpuprov) -> None:
    assert gpuprov.in_node(NODES[0], "nvidia-smi", "-L").startswith("GPU 0: SIMULATED (UUID: GPU-")
    assert sorted(gpuprov.in_node(NODES[0], "srun", "-N4", "hostname").split()) == NODES
    gpus = ("sh", "-c", 'echo "gpus=$CUDA_VISIBLE_DEVICES"')
    assert gpuprov.in_node(NODES[0], "srun", "--gres=gpu:1", *gpus) == "gpus=0\n"
    assert gpuprov.in_node(NODES[0], "srun", *gpus) == "gpus=NoDevFiles\n"
    refused = gpuprov("exec", NODES[0], "--", "srun", "--gres=gpu:2", "-n2", "hostname", expect=1)
    assert "Requested node configuration is not available" in refused.stderr


def test_a_second_up_changes_nothing(gpuprov: Gpuprov, world: DockerWorld) -> None:
    before = world.look()
    assert gpuprov.json(*UP)["unchanged"] is True
    assert gpuprov.json("cluster", "plan", "--name", CLUSTER)["plan"] == []
    assert world.look() == before


def test_no_node_is_privileged_or_opens_more_than_its_gpu(world: DockerWorld) -> None:
    for name in NODES:
        config = world.client.inspect_container(name)["HostConfig"]
        assert not config["Privileged"]
        assert config["NetworkMode"] != "host"
        assert not config["PidMode"]
        assert (config["CapAdd"] or [], config["CapDrop"], config["SecurityOpt"] or []) == ([], ["MKNOD"], [])
        assert all("*" not in rule.split()[1] for rule in config["DeviceCgroupRules"] or [])


def test_shrink_and_grow(gpuprov: Gpuprov) -> None:
    gpuprov(*UP, "-n", "2", "--no-verify")
    assert states(gpuprov) == {NODES[0]: "idle", NODES[1]: "idle"}
    gpuprov(*UP, "-n", "4", "--no-verify")
    assert states(gpuprov) == IDLE
    assert sorted(gpuprov.in_node(NODES[3], "srun", "-N4", "hostname").split()) == NODES


def test_nodes_stop_cleanly_and_come_back_idle(gpuprov: Gpuprov, world: DockerWorld) -> None:
    gpuprov("stop", NODES[0], NODES[2])  # the controller, and another
    for name in (NODES[0], NODES[2]):
        assert world.client.inspect_container(name)["State"]["ExitCode"] == 0, "not killed: every service has ended"
    assert "Saving all slurm state" in gpuprov("logs", NODES[0]).stdout
    gpuprov("start", NODES[0], NODES[2])
    wait_idle(gpuprov)
    assert sorted(gpuprov.in_node(NODES[0], "srun", "-N4", "hostname").split()) == NODES


def test_a_service_that_dies_is_started_again_and_orphans_are_reaped(gpuprov: Gpuprov) -> None:
    gpuprov.in_node(NODES[1], "sh", "-c", "(sleep 0.1 &) ; pkill -KILL -x slurmd; pkill -KILL -x munged; sleep 2.5")
    alive = gpuprov.in_node(NODES[1], "ps", "-eo", "stat=,comm=")
    assert {"slurmd", "munged"} <= set(alive.split())
    assert not [line for line in alive.splitlines() if line.startswith("Z")]
    assert gpuprov.in_node(NODES[0], "srun", "-w", NODES[1], "hostname") == f"{NODES[1]}\n"


SLURM_CONF = """\
ClusterName=alone
SlurmctldHost=localhost
AuthType=auth/none
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName=alone State=UNKNOWN
"""


@pytest.fixture
def cgroup_2() -> Iterator[Path]:
    """Below no folder that pytest empties: after a killed run, it would remove control groups of others there."""
    folder = Path("/run") / f"{PLACE.mark}-cgroup-2"
    if not folder.is_mount():  # else a killed run has left it
        folder.mkdir(exist_ok=True)
        output("mount", "-t", "cgroup2", "none", str(folder))
    yield folder
    output("umount", str(folder))
    folder.rmdir()


def test_slurmd_starts_where_docker_gives_cgroup_2_alone(world: DockerWorld, tmp_path: Path, cgroup_2: Path) -> None:
    """As on all hosts of today, and seldom where tests run: its plugin for version 2 would ask systemd."""
    image = world.client.inspect_container(NODES[1])["Image"]
    (tmp_path / "slurm.conf").write_text(SLURM_CONF)
    mounts = ("-v", f"{cgroup_2}:/sys/fs/cgroup:ro", "-v", f"{tmp_path}/slurm.conf:/etc/slurm/slurm.conf:ro")
    script = "stat -f -c %T /sys/fs/cgroup; mkdir -p /var/spool/slurmd; timeout 4 slurmd -D -N alone 2>&1 || true"
    said = output("docker", "run", "--rm", "-h", "alone", *mounts, image, "sh", "-c", script)
    assert said.startswith("cgroup2fs\n")
    assert "slurmd started on" in said


@pytest.mark.alone
def test_nodes_outlive_a_restart_of_the_engine(gpuprov: Gpuprov, host: Callable[..., str]) -> None:
    if PID_FILE.exists():
        pid = int(PID_FILE.read_text())
        os.kill(pid, signal.SIGTERM)
        wait_for_end(pid)
        assert "host prepare --engine docker" in gpuprov("list", "--engine", "docker", expect=3).stderr
        gpuprov("host", "prepare", "--engine", "docker")
    elif os.environ.get("CI"):
        host("systemctl", "restart", "docker")
    else:
        pytest.skip("somebody else started this Docker: not ours to restart")
    wait_idle(gpuprov)
    assert sorted(gpuprov.in_node(NODES[0], "srun", "-N4", "hostname").split()) == NODES


def test_a_bundle_has_everything_but_secrets(gpuprov: Gpuprov, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    log = (
        "sh",
        "-c",
        "cat /etc/munge/munge.key | base64 >>/var/log/slurm/slurmd.log; echo password=gpt-4711 >/proc/1/fd/1",
    )
    gpuprov.in_node(NODES[1], *log)
    document = gpuprov("--json", "bundle", str(path), "--engine", "docker").document
    assert not [part for part in document["missing"] if part.startswith(f"docker/clusters/{CLUSTER}/")]
    parts = unpack(path)
    assert {"doctor-docker.json", "docker/facts.json", f"docker/clusters/{CLUSTER}/plan.txt"} <= set(parts)
    for name in NODES:
        assert b"run: " in parts[f"docker/nodes/{name}/units.txt"]
        assert b"slurmd version" in parts[f"docker/nodes/{name}/slurm-logs.txt"]
    assert NODES[3].encode() in parts[f"docker/clusters/{CLUSTER}/slurm.txt"]
    assert b"password=(hidden)" in parts[f"docker/nodes/{NODES[1]}/console.txt"]
    whole = b"\0".join(parts.values())
    for secret in (b"gpt-4711", *secrets_of(gpuprov, CLUSTER, *NODES)):
        assert secret not in whole


def verbs_on_nodes() -> set[str]:
    """Of the table in docs/commands.md."""
    text = (
        (Path(__file__).parents[2] / "docs" / "commands.md").read_text().partition("### Nodes")[2].partition("###")[0]
    )
    return set(re.findall(r"^\| `([a-z-]+)", text, re.MULTILINE))


def test_every_verb_on_nodes_works_or_names_what_docker_lacks(gpuprov: Gpuprov) -> None:
    used = set()

    def do(verb: str, *argv: str, expect: int = 0) -> str:
        used.add(verb)
        done = gpuprov("-q", verb, *argv, expect=expect, variables={"GPUPROV_SIMULATED_GPUS": "24"})
        return done.stderr if expect else done.stdout

    do(*CREATE, "dkw0", "--gpus", "gpu22,gpu23", "--exclusive")  # no other cluster of these tests has them
    assert do("exec", "dkw0", "--", "sh", "-c", "ls /dev/nvidia[0-9]* | wc -l").strip() == "2"
    do("exec", "dkw0", "--", "sh", "-c", "exit 7", expect=7)
    do("exec", "dkw0", "--", "no-such-command", expect=127)
    do("shell", "dkw0")
    assert do("ssh", "dkw0", "hostname") == "dkw0\n"
    assert "Server listening on 0.0.0.0 port 22" in do("logs", "dkw0")
    assert "gpuprov.sharing=exclusive" in do("show", "dkw0")
    assert "dkw0" in do("list", "--engine", "docker")
    refused = do("expose", "dkw0", "8080", "--port", "17080", expect=4)
    assert "docker cannot forward a port to a running node" in refused
    assert "supported: jobs, snapshot" in refused
    assert "gpuprov stop dkw0 && gpuprov expose dkw0 8080 --port 17080 && gpuprov start dkw0" in refused
    do("exec", "dkw0", "--", "sh", "-c", "echo one >/root/kept")
    do("snapshot", "dkw0", "first")
    do("exec", "dkw0", "--", "sh", "-c", "echo two >/root/kept")
    do("stop", "dkw0")
    do("expose", "dkw0", "8080", "--port", "17080")
    do("clone", "dkw0", "dkw1", "--gpu-mode", "simulated")
    do("restore", "dkw0", "first")
    do("start", "dkw0")
    assert (do("exec", "dkw0", "--", "cat", "/root/kept"), do("exec", "dkw1", "--", "cat", "/root/kept")) == (
        "one\n",
        "two\n",
    )
    do("cp", "dkw0:/root/kept", str(gpuprov.folder / "kept"))
    assert (gpuprov.folder / "kept").read_text() == "one\n"
    do("exec", "dkw0", "--", "sh", "-c", "cd /root; nohup python3 -m http.server 8080 >/dev/null 2>&1 & sleep 1")
    with urllib.request.urlopen("http://127.0.0.1:17080/kept", timeout=10) as answer:
        assert answer.read() == b"one\n"
    do("stop", "dkw0")
    do("unexpose", "dkw0", "17080")
    do("rm", "dkw0", "dkw1")
    assert used == verbs_on_nodes()


REFUSED = {
    "an image that is not there": ((*CREATE, "new", "--image", "nothing"), 4, "docker has no image 'nothing'"),
    "an image by digest that is not there": (
        (*CREATE, "new", "--image", f"debian@sha256:{'0' * 64}"),
        4,
        "docker has no image 'debian@sha256:0000",
    ),
    "an image by tag that is not there": (
        (*CREATE, "new", "--image", "debian:none"),
        4,
        "docker has no image 'debian:none'",
    ),
    "a base that is not there": (
        ("image", "build", "--engine", "docker", "--base", "image:no:1"),
        4,
        "no image 'no:1'",
    ),
    "a privileged node": ((*CREATE, "new", "--privileged"), 4, "docker does not support privileged nodes"),
    "a name that a node has": ((*CREATE, NODES[1]), 2, f"the name {NODES[1]} is taken"),
    "an address of another network": ((*CREATE, "new", "--addr", "10.9.9.9"), 2, f"{PLACE.mark}0 is {PLACE.subnet(0)}"),
    "a node's address": ((*CREATE, "new", "--addr", PLACE.address(0, 3)), 2, f"in use by node {NODES[1]}"),
    "more GPUs than there are": ((*CREATE, "new", "--gpus", "9"), 2, "there are fewer than 9 GPUs"),
    "a node that is not there": (("stop", "nobody", "--engine", "docker"), 2, "there is no node nobody"),
    "an undo under a cluster": (("host", "undo", "--engine", "docker"), 3, "gpuprov has no nodes or images"),
}


@pytest.mark.parametrize(("argv", "exit_code", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(gpuprov: Gpuprov, world: DockerWorld, argv: tuple[str, ...], exit_code: int, words: str) -> None:
    before = world.look()
    refused = gpuprov("-q", *argv, expect=exit_code)
    has_three_parts(refused)
    assert words in refused.stderr, refused.all
    assert world.look() == before


def test_images_of_the_user_s_by_tag_and_by_digest(gpuprov: Gpuprov, world: DockerWorld) -> None:
    identity = next(item["Id"] for item in world.client.images(name="gpuprov-image"))
    world.client.tag(identity, f"{CLUSTER}/other", "one")
    try:
        for name in (f"{CLUSTER}/other:one", identity):
            gpuprov(*CREATE, "dkimg", "--role", "plain", "--gpus", "0", "--image", name)
            assert world.client.inspect_container("dkimg")["Image"] == identity
            gpuprov("rm", "dkimg")
    finally:
        world.client.remove_image(f"{CLUSTER}/other:one")


def test_what_somebody_else_has_is_left_alone(
    gpuprov: Gpuprov, world: DockerWorld, host: Callable[..., str], tmp_path: Path
) -> None:
    image = next(item["Id"] for item in world.client.images(name="gpuprov-image"))
    world.client.create_container(image, name=FOREIGN, command="true")
    network = world.client.create_network(f"{PLACE.mark}8", driver="bridge")["Id"]
    try:
        with link(host, f"{PLACE.mark}9", "type", "bridge"):
            host("ip", "address", "add", f"{PLACE.address(2, 9)}/24", "dev", f"{PLACE.mark}9")
            before = world.look()
            bridges = {"bridge": f"{BESIDE.mark}0", "private_bridge": f"{BESIDE.mark}1"}
            theirs = (f"{PLACE.mark}8", f"{PLACE.mark}9")

            def up(**network: str) -> Finished:
                path = spec_of(tmp_path, BESIDE, **{**bridges, **network})
                return gpuprov("cluster", "up", "-f", path, expect=2 if "subnet" in network else 4)

            refused = {
                f"the name {FOREIGN} is taken by an instance": (
                    gpuprov(*UP, "-n", "5", expect=4),
                    gpuprov(*CREATE, FOREIGN, expect=4),
                ),
                "gpuprov did not create": tuple(gpuprov(verb, FOREIGN, expect=2) for verb in ("rm", "stop", "show")),
                **{f"{name} exists and was not created": (up(bridge=name), up(private_bridge=name)) for name in theirs},
                f"the subnet {PLACE.subnet(2)} is in use on this host": (up(subnet=PLACE.subnet(2)),),
            }
            for words, answers in refused.items():
                for answer in answers:
                    has_three_parts(answer)
                    assert words in answer.stderr, answer.all
            assert world.look() == before
    finally:
        world.client.remove_container(FOREIGN)
        world.client.remove_network(network)


def test_no_daemon(gpuprov: Gpuprov, tmp_path: Path) -> None:
    refused = gpuprov(*UP, "--engine", "docker", expect=3, variables={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    has_three_parts(refused)
    assert f"no socket at {tmp_path}/none.sock" in refused.stderr
    assert "host prepare --engine docker" in refused.stderr


def test_no_permission_on_the_daemons_socket(gpuprov: Gpuprov) -> None:
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps)
    refused = gpuprov(*UP, "--engine", "docker", expect=3, before=nobody, variables={"HOME": "/nonexistent"})
    has_three_parts(refused)
    assert "this user has no access to docker" in refused.stderr
    assert "usermod -aG" in refused.stderr


class _Old(BaseHTTPRequestHandler):
    """Docker 19.03, as far as it gets."""

    def do_GET(self) -> None:
        content = json.dumps({"Version": "19.03.15", "ApiVersion": "1.40", "MinAPIVersion": "1.12"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextmanager
def old_daemon(socket: str) -> Iterator[None]:
    with socketserver.ThreadingUnixStreamServer(socket, _Old) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_an_old_daemon(gpuprov: Gpuprov, tmp_path: Path) -> None:
    with old_daemon(f"{tmp_path}/old.sock"):
        refused = gpuprov(*UP, "--engine", "docker", expect=3, variables={"DOCKER_HOST": f"unix://{tmp_path}/old.sock"})
    has_three_parts(refused)
    assert "docker 19.03.15 is too old" in refused.stderr
    assert "1.41" in refused.stderr


def test_another_spec_restarts_nodes_by_name_and_not_under_a_job(
    gpuprov: Gpuprov, world: DockerWorld, tmp_path: Path
) -> None:
    """The last before `cluster down`: mount and variable stay."""
    (tmp_path / "hello").write_text("from the host")
    path = spec_of(tmp_path, nodes=f"environment: [GPT_A=one], mounts: [{{source: {tmp_path}, target: /mnt/data}}]")
    up = ("cluster", "up", "-f", path, "--no-verify")
    with gpuprov.start("exec", NODES[0], "--", "srun", "-w", NODES[1], "sleep", "600") as job:
        try:
            deadline = time.monotonic() + 20
            while states(gpuprov)[NODES[1]] == "idle":
                assert time.monotonic() < deadline, "the job does not start"
            before = world.look()
            refused = gpuprov(*up, expect=2)
            has_three_parts(refused)
            assert f"there are jobs on {fold(NODES)}" in refused.stderr
            assert f"of root (sleep) on {NODES[1]}" in refused.stderr
            assert world.look() == before
            gpuprov.in_node(NODES[0], "scancel", "--user=root")
            wait_idle(gpuprov)
        finally:
            job.kill()
    planned = gpuprov.json("cluster", "plan", "-f", path)["plan"]
    words = "mounts /mnt/data (until now none); environment.GPT_A one (until now unset)"
    files = "/etc/gpuprov/environment, /etc/ssh/sshd_config.d/gpuprov-environment.conf, /etc/environment"
    assert planned == [
        *(f"repair node {name}: {words}" for name in NODES),
        *(f"restart node {name}" for name in NODES),
        f"renew {files} on {fold(NODES)}",
    ]
    assert gpuprov.json(*up)["changed"] == planned
    assert states(gpuprov) == IDLE
    show = ("sh", "-c", "cat /mnt/data/hello; echo , $GPT_A")
    assert gpuprov.in_node(NODES[1], *show) == "from the host, one\n"
    assert sorted(gpuprov.in_node(NODES[0], "srun", "-N4", "hostname").split()) == NODES
    after = world.look()
    assert gpuprov.json(*up)["unchanged"] is True
    assert world.look() == after


def test_down_leaves_nothing(gpuprov: Gpuprov, world: DockerWorld, bare: dict[str, object]) -> None:
    gpuprov("cluster", "down", CLUSTER, "--yes")
    assert world.look() == bare


@pytest.mark.parametrize("argv", [("cluster", "down", CLUSTER), ("rm", NODES[0]), ("image", "rm", "nothing")])
def test_what_is_gone_is_unchanged_on_a_host_without_lxd_and_an_error_beside_a_silent_one(
    gpuprov: Gpuprov, argv: tuple[str, ...]
) -> None:
    silent = {"LXD_DIR": "/nonexistent"}
    alone = {**silent, "PATH": "/usr/sbin"}  # where lxd is not
    gpuprov(*argv, variables=alone)  # `rm` completes other clusters too, such as one of the contract tests
    assert gpuprov(*argv, variables=alone).stdout == "unchanged\n"
    refused = gpuprov(*argv, variables=silent, expect=4)
    has_three_parts(refused)
    assert "on the engines that respond" in refused.stderr
