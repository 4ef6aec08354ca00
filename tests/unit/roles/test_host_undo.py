"""`host undo` beside an engine of these tests' own, which answers on a socket as Docker and LXD do."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpuprov.core.reporter import Silent
from gpuprov.drivers.docker.devices import FOLDER
from gpuprov.drivers.docker.documents import IMAGE_LABEL, IMAGES, KEPT, ROOTFS, SNAPSHOT_LABEL, SNAPSHOTS
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"
DAEMON = {"docker": "dockerd", "lxd": "lxd", "incus": "incusd"}
TASKS = {"docker": "undo_docker", "lxd": "undo_lxd", "incus": "undo_lxd"}
SOURCE = {"host_backports_file": "gpuprov-incus.list", "host_backports_pin": "gpuprov-incus"}
CONTAINERS, DOCKER_IMAGES = "/containers/json?all=1", "/images/json"
POOLS, INSTANCES, LXD_IMAGES = (f"/1.0/{what}?recursion=1" for what in ("storage-pools", "instances", "images"))
EMPTIED = {"gpuprov.cluster": "", "gpuprov.role": "", "gpuprov.version": "", "gpuprov.fingerprint": ""}
NODE_IMAGE = {**EMPTIED, IMAGE_LABEL: '{"gpuprov.fingerprint": "5a51"}', SNAPSHOT_LABEL: ""}


class Server(ThreadingMixIn, UnixStreamServer):
    """An engine: documents by path, and what it was asked to delete and to create."""

    daemon_threads = True

    def __init__(self, socket: Path, answers: Mapping[str, object], *, in_use: tuple[str, ...] = ()) -> None:
        self.answers = answers
        self.in_use = in_use
        self.deleted: list[str] = []
        self.created: list[dict[str, Any]] = []
        super().__init__(str(socket), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path)
        self._say(500 if answer is None else 200, answer)

    def do_DELETE(self) -> None:
        if self.path in self.server.in_use:
            self._say(409, {"message": "container 4cfdec2ef78e is using its referenced image"})
            return
        self.server.deleted.append(self.path)
        self._say(200, [])

    def do_POST(self) -> None:
        self.server.created.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._say(201, {})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a socket without addresses has no client's to tell."""

    def _say(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="undo") as name:
        yield Path(name)


@contextmanager
def engine(folder: Path, answers: Mapping[str, object], *, in_use: tuple[str, ...] = ()) -> Iterator[Server]:
    with Server(folder / "unix.socket", answers, in_use=in_use) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextmanager
def daemon(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of that name, which the process id's file says that `prepare` started."""
    program = folder / DAEMON[name]
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([str(program), "60"]) as process:
        threading.Thread(target=process.wait, daemon=True).start()  # no corpse is left for the role to wait for
        (folder / f"{name}.pid").write_text(f"{process.pid}\n")
        try:
            yield process
        finally:
            process.kill()


def undo(folder: Path, name: str) -> tuple[str, ...]:
    variables = {
        "host_engine": name,
        "host_docker_socket": str(folder / "unix.socket"),
        "host_docker_devices": str(folder / "devices"),
        "host_lxd_dir": str(folder),
        "host_run_dir": str(folder),
        **{key: str(folder / file) for key, file in SOURCE.items()},
    }
    use = RoleUse(name="host", tasks=TASKS[name], variables=variables)
    play = Play(roles=(use,), targets=(Target(),), roles_path=ROLES, silence_s=60)
    return run_play(play, reporter=Silent()).changed


def refused(folder: Path, name: str) -> tuple[str, str]:
    """What undo says when it refuses: the task, and its message."""
    with pytest.raises(TaskFailed) as caught:
        undo(folder, name)
    shutil.rmtree(caught.value.folder)
    return caught.value.event.task, caught.value.event.message


def image(labels: Mapping[str, str] | None, *tags: str) -> dict[str, Any]:
    return {"Id": "sha256:1", "Labels": labels, "RepoTags": list(tags) or None}


def container(name: str, **labels: str) -> dict[str, Any]:
    return {"Id": "4cfdec2ef78e", "Names": [f"/{name}"], "Labels": labels}


IMAGES_OF_OTHERS = [
    image(NODE_IMAGE, "mine:derived"),
    image(NODE_IMAGE),
    image(None, "debian:12"),
    image({}, f"{IMAGES}:000000000000", f"{KEPT}:mine"),
    image({"gpuprov.version": "1"}, f"{ROOTFS}:mine"),
]
LEFT_OVER = [
    image({IMAGE_LABEL: "%7B%22gpuprov.version%22%3A%20%221%22%7D"}, f"{ROOTFS}:base", "mine:base"),
    image(NODE_IMAGE, f"{KEPT}:5d3f"),
    image({**EMPTIED, IMAGE_LABEL: "", SNAPSHOT_LABEL: '{"uid": "u", "name": "s"}'}, f"{SNAPSHOTS}:u-1"),
]


def test_what_undo_refuses_it_names_and_nothing_goes(folder: Path) -> None:
    (folder / "devices").mkdir()
    made = {"gpuprov.cluster": "lab", "gpuprov-docker.node": '{"name": "c000"}'}
    nodes = [container("c000", **made), container("backup", **made), container("theirs", **{"gpuprov.cluster": ""})]
    images = [image(NODE_IMAGE, f"{IMAGES}:5a51", "mine:5a51"), image(NODE_IMAGE, f"{IMAGES}:6b62")]
    answers = {CONTAINERS: nodes, DOCKER_IMAGES: [*images, *IMAGES_OF_OTHERS, *LEFT_OVER]}
    with daemon(folder, "docker") as process, engine(folder, answers) as server:
        task, message = refused(folder, "docker")
        assert process.poll() is None
    assert task == "Require that gpuprov has no nodes or images"
    evidence, _, fix = message.partition("\nfix: ")
    assert evidence == "Docker has c000, gpuprov-image-5a51, gpuprov-image-6b62"
    assert fix == (
        "gpuprov list --all, and for each cluster in Docker gpuprov cluster down NAME --engine docker; "
        "gpuprov image rm gpuprov-image-5a51 --engine docker; gpuprov image rm gpuprov-image-6b62 --engine docker"
    )
    assert server.deleted == []
    assert (folder / "devices").is_dir()


def test_undo_removes_our_tags_and_leaves_what_is_somebody_else_s(folder: Path) -> None:
    (folder / "devices").mkdir()
    (folder / "devices" / "195-0-0666").touch()
    others = container("theirs", **{"gpuprov.cluster": "", "gpuprov-docker.node": "{}"})
    answers = {CONTAINERS: [others], DOCKER_IMAGES: [*IMAGES_OF_OTHERS, *LEFT_OVER]}
    with daemon(folder, "docker") as process, engine(folder, answers, in_use=(f"/images/{KEPT}:5d3f",)) as server:
        changed = undo(folder, "docker")
        assert process.poll() is None, "somebody's container is in it"
    assert server.deleted == [f"/images/{ROOTFS}:base", f"/images/{SNAPSHOTS}:u-1"]
    assert not (folder / "devices").exists()
    assert changed == (
        "host: Remove the base images and the remains of removed nodes",
        "host: Remove the devices created for nodes",
    )


def test_of_an_engine_s_cluster_nothing_is_removed_or_stopped(folder: Path) -> None:
    pool = {"name": "gpuprov", "config": {"user.gpuprov.cluster": "(host)"}, "used_by": []}
    elsewhere = {"name": "c000", "location": "m2", "config": None}
    base = {"fingerprint": "1", "properties": {"gpuprov.version": "1"}}
    answers = {
        "/1.0": {"metadata": {"environment": {"server_clustered": True, "server_name": "m1"}}},
        POOLS: {"metadata": [pool]},
        INSTANCES: {"metadata": [elsewhere]},
        LXD_IMAGES: {"metadata": [base]},
    }
    with daemon(folder, "lxd") as process, engine(folder, answers) as server:
        assert undo(folder, "lxd") == ()
        assert process.poll() is None
    assert server.deleted == []
    node = {"name": "c001", "location": "m1", "config": {"user.gpuprov.cluster": "lab"}}
    (folder / "unix.socket").unlink()
    with engine(folder, answers | {INSTANCES: {"metadata": [elsewhere, node]}}):
        assert "LXD has c001\n" in refused(folder, "lxd")[1]


def test_an_empty_engine_is_stopped(folder: Path) -> None:
    answers: dict[str, object] = {path: {"metadata": []} for path in (POOLS, INSTANCES, LXD_IMAGES)}
    with daemon(folder, "lxd") as process, engine(folder, answers):
        assert undo(folder, "lxd") == ("host: Stop the daemon started by prepare",)
        process.wait(1)
    assert not (folder / "lxd.pid").exists()


def test_with_incus_its_source_goes_and_it_is_stopped_by_its_name(folder: Path) -> None:
    for file in SOURCE.values():
        (folder / file).touch()
    answers: dict[str, object] = {path: {"metadata": []} for path in (POOLS, INSTANCES, LXD_IMAGES)}
    with daemon(folder, "incus") as process, engine(folder, answers):
        assert undo(folder, "incus") == (
            "host: Remove the source of Incus",
            "host: Stop the daemon started by prepare",
        )
        process.wait(1)
    assert not any((folder / file).exists() for file in (*SOURCE.values(), "incus.pid"))


def test_of_lxd_s_instances_copies_are_not_ours_to_name(folder: Path) -> None:
    def instance(name: str, self: str | None) -> dict[str, Any]:
        known = {} if self is None else {"user.gpuprov.self": self}
        return {"name": name, "config": {"user.gpuprov.cluster": "lab", **known}}

    instances = [
        instance("c000", "c000 2f1a"),
        instance("earlier", None),
        instance("gpuprov-image-1", "gpuprov-build"),
        instance("backup", "c000 2f1a"),
    ]
    answers: dict[str, object] = {path: {"metadata": []} for path in (POOLS, LXD_IMAGES)}
    with engine(folder, {**answers, INSTANCES: {"metadata": instances}}):
        _, message = refused(folder, "lxd")
        assert message.startswith("LXD has c000, earlier, gpuprov-image-1\n")
    (folder / "unix.socket").unlink()
    with engine(folder, {**answers, INSTANCES: {"metadata": instances[3:]}}) as server:
        undo(folder, "lxd")
    assert server.deleted == []


def test_an_engine_that_is_gone_leaves_no_process_id(folder: Path) -> None:
    with daemon(folder, "docker"):
        pass
    (folder / "devices").mkdir()
    assert undo(folder, "docker") == ()
    assert not (folder / "docker.pid").exists()
    assert (folder / "devices").is_dir(), "nobody said that no node needs them"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "answers"),
    [("docker", {CONTAINERS: []}), ("lxd", {POOLS: {"metadata": []}}), ("incus", {POOLS: {"metadata": []}})],
    ids=list(DAEMON),
)
def test_an_engine_that_runs_and_does_not_answer_is_not_stopped(
    folder: Path, name: str, answers: dict[str, object]
) -> None:
    with daemon(folder, name) as process, engine(folder, answers) as server:
        task, message = refused(folder, name)
        assert process.poll() is None
        assert (folder / f"{name}.pid").exists()
    evidence, _, fix = message.partition("\nfix: ")
    assert task == "Require that the daemon started by prepare responds"
    assert f"{DAEMON[name]} is running (process {process.pid})" in evidence
    assert "Status code was 500" in evidence
    assert fix.startswith(f"gpuprov host undo{'' if name == 'lxd' else f' --engine {name}'}; ")
    assert f"kill -KILL {process.pid} && gpuprov host prepare" in fix
    assert server.deleted == []


def test_the_role_and_the_driver_mean_the_same_folder() -> None:
    variables = yaml.safe_load((ROLES / "host" / "vars" / "main.yml").read_text(encoding="utf-8"))
    assert variables["host_docker_devices"] == f"/{FOLDER}"
