"""The role `worker` on a fake engine: its files, its password, and what its nodes' workers say of themselves."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.drivers.base import LABEL_GPUS, ExecResult, File
from gpuprov.lifecycle.find_controller import get_controller
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.start_stop import stop_nodes
from gpuprov.roles.registry import ROLES
from gpuprov.roles.worker import services
from gpuprov.roles.worker.facts import APPLIED, BROKER, DEFINITIONS, FLOWER, GPUS, RABBITMQ, SCRUB_SERVICE
from gpuprov.roles.worker.files import broker_files, hash_password, page_file, page_password
from gpuprov.roles.worker.page import PAGE_FILE
from gpuprov.roles.worker.password import BROKER_FILE, read_password
from gpuprov.roles.worker.services import describe_workers
from gpuprov.shapes.base import changed, read, write
from gpuprov.shapes.cluster_spec import GpuSpec, JobsSpec, NodesSpec, WorkerSpec
from gpuprov.shapes.workers import Worker, Workers
from gpuprov.spec.spec_error import SpecError, in_spec
from gpuwork import crew
from gpuwork.worker.arguments import parse_arguments
from tests.fakes.world import World, make_world

if TYPE_CHECKING:
    from gpuprov.lifecycle.cluster_up import UpResult
    from tests.conftest import Recording

CONF = f"{RABBITMQ}/rabbitmq.conf"
SECRET = b"ab" * 32
ROLE = Path(__file__).parents[3] / "roles/worker"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return make_world(tmp_path, monkeypatch, recording)


def up(world: World, count: int = 3, **spec: Any) -> UpResult:
    return world.up(spec=world.spec(nodes=NodesSpec(count=count, role="worker"), share=True, **spec))


def jobs_say(world: World, monkeypatch: pytest.MonkeyPatch, *jobs: tuple[str, str, str | None]) -> None:
    """Have the program for jobs tell of these live ones: id, state, node; so many are newer that `list` has none."""
    row = {
        "name": "train", "tries": 1, "gpus": [], "simulated": True, "exit_status": None, "reason": None,
        "submitted": "2026-11-22T16:40:12Z", "started": None, "ended": None, "log": "/shared/jobs/1/log",
    }  # fmt: skip
    rows = [{**row, "id": id_, "state": state, "node": node} for id_, state, node in jobs]
    told = {"schema": "gpuprov.jobs/v1", "version": 1, "jobs": rows, "older": 0}
    monkeypatch.setattr(world.workers, "_list_live", lambda: told)


def test_jobs_of_workers_have_a_time_limit_of_the_spec_and_no_memory(world: World) -> None:
    with pytest.raises(SpecError) as caught:
        up(world, jobs=JobsSpec(time="12h", memory="4GiB"))
    assert [in_spec(problem) for problem in caught.value.problems] == [
        "jobs.memory: is given, but workers do not limit memory (allowed: null, or nodes.role: slurm)"
    ]
    assert world.names == []
    up(world, jobs=JobsSpec(time="12h"))
    assert get_controller(world.driver, "lab").defaults == JobsSpec(time="12h")
    changed = up(world, jobs=JobsSpec(time="6h"))
    assert get_controller(world.driver, "lab").defaults == JobsSpec(time="6h"), "a change is recorded"
    assert changed.changed == ("record jobs.time: 6h (until now 12h)",), "and nothing is restarted"


def test_each_node_has_the_url_and_its_gpus_and_the_first_one_the_broker(world: World) -> None:
    up(world)
    nodes = world.engine.nodes
    urls = {world.file(name, BROKER) for name in nodes}
    (url,) = urls
    password = url.removeprefix("amqp://gpuwork:").partition("@")[0]
    assert len(password) == 64
    assert url == f"amqp://gpuwork:{password}@10.0.5.1:5672/gpuwork\n"
    assert {name: node.files[BROKER].mode for name, node in nodes.items()} == dict.fromkeys(nodes, 0o640)
    assert {name: node.files[BROKER].gid for name, node in nodes.items()} == dict.fromkeys(nodes, 59400)
    for name, node in nodes.items():
        assert world.file(name, GPUS).split() == node.labels["gpuprov.gpus"].split(",")
    assert [name for name, node in nodes.items() if DEFINITIONS in node.files] == ["c000"]
    assert "listeners.tcp.1 = 10.0.5.1:5672" in world.file("c000", CONF).splitlines()
    assert "{consumer_timeout, undefined}" in world.file("c000", f"{RABBITMQ}/advanced.config"), "tasks may take days"
    assert nodes["c000"].files[DEFINITIONS].mode == 0o600
    (user,) = json.loads(world.file("c000", DEFINITIONS))["users"]
    assert (user["name"], user["tags"]) == ("gpuwork", [])
    assert password not in world.file("c000", DEFINITIONS)
    hashed = base64.b64decode(user["password_hash"])
    assert hashed[4:] == hashlib.sha256(hashed[:4] + password.encode()).digest()
    assert up(world).unchanged


class Member:
    """Stands for a worker that the crew would start; the last one ends the crew."""

    begun: list[list[str]]

    def __init__(self, _gpu: str, argv: list[str]) -> None:
        self.begun.append(argv)

    def look(self, _now: float) -> None:
        raise KeyboardInterrupt


def test_a_node_with_two_gpus_has_two_workers_that_see_one_each(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "CrewMember", Member)
    up(world, 2, gpus=GpuSpec(per_node=2, sharing="exclusive"))
    seen: list[str] = []
    for name in world.names:
        (tmp_path / name).write_text(world.file(name, GPUS))
        Member.begun = []
        with pytest.raises(KeyboardInterrupt):
            crew.main(["--gpus", str(tmp_path / name)])
        options = [parse_arguments(argv[3:]) for argv in Member.begun]
        assert [one.gpu for one in options] == world.engine.nodes[name].labels[LABEL_GPUS].split(",")
        assert [one.log.name for one in options] == ["worker-0.log", "worker-1.log"]
        seen += [one.gpu for one in options]
    assert sorted(seen) == sorted(gpu.uuid for gpu in world.gpus.gpus), "each of the host's four GPUs, once"


def test_gpus_are_scrubbed_between_people_where_the_spec_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "CrewMember", Member)
    up(world, 2, gpus=GpuSpec(sharing="exclusive", scrub=True))
    uuid = world.engine.nodes["c001"].labels[LABEL_GPUS]
    assert world.file("c001", GPUS) == f"{uuid} scrub\n"
    (tmp_path / "gpus").write_text(world.file("c001", GPUS))
    Member.begun = []
    with pytest.raises(KeyboardInterrupt):
        crew.main(["--gpus", str(tmp_path / "gpus")])
    (options,) = (parse_arguments(argv[3:]) for argv in Member.begun)
    assert (options.gpu, options.scrub) == (uuid, True)
    world.slurm.restarted.clear()
    up(world, 2, gpus=GpuSpec(sharing="exclusive"))
    assert world.file("c001", GPUS) == f"{uuid}\n"
    assert ("c001", SCRUB_SERVICE) not in world.slurm.restarted, "it has nothing to do, and nobody asks it"
    assert ("c001", "gpuwork") in world.slurm.restarted
    world.slurm.restarted.clear()
    up(world, 2, gpus=GpuSpec(sharing="exclusive", scrub=True))
    assert [service for name, service in world.slurm.restarted if name == "c001"] == [SCRUB_SERVICE, "gpuwork"]


def test_nodes_that_go_leave_memory_as_it_is_and_that_is_said(world: World) -> None:
    up(world, 3, gpus=GpuSpec(sharing="exclusive", scrub=True))
    remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    world.down()
    said = [line for line in world.reporter.lines if "is not scrubbed now" in str(line)]
    assert ["c002" in str(line) for line in said] == [True, False]
    assert "c[000-001]" in str(said[1])


@pytest.mark.parametrize(
    ("init", "asks"),
    [
        (f"systemd/etc/systemd/system/{SCRUB_SERVICE}.service", f"ExecCondition=/bin/grep -qw scrub {GPUS}"),
        (
            f"runit/etc/runit/runsvdir/gpuprov/{SCRUB_SERVICE}/run",
            f"grep -qsw scrub {GPUS} || exec sv down {SCRUB_SERVICE}",
        ),
    ],
)
def test_root_s_program_runs_where_the_spec_says_scrub(init: str, asks: str) -> None:
    lines = (ROLE / "files" / init).read_text().splitlines()
    assert asks in lines
    assert [line for line in lines if line.endswith("/usr/bin/python3 -I -m gpuwork.scrubber")]
    assert not [line for line in lines if line.startswith("User=") or "chpst" in line], "as root"
    assert f"{SCRUB_SERVICE}.service" in (ROLE / "tasks/service.yml").read_text()


def test_a_node_that_shares_its_gpus_is_none_for_a_cluster_that_scrubs(world: World) -> None:
    scrubbing = GpuSpec(sharing="exclusive", scrub=True)
    visible = f"NVIDIA_VISIBLE_DEVICES={world.gpus.gpus[3].uuid}"
    up(world, 2, gpus=scrubbing)
    with pytest.raises(UsageError, match="c002 shares its GPUs, and a scrub") as caught:
        world.create("c002", environment=(visible,))
    assert "NVIDIA_VISIBLE_DEVICES alone asks for shared GPUs" in caught.value.evidence
    assert world.names == ["c000", "c001"]
    world.create("c002", environment=(visible,), gpus=1, sharing="exclusive")
    world.create("c003", environment=("NVIDIA_VISIBLE_DEVICES=none",))
    assert up(world, 2, gpus=scrubbing).unchanged


def test_a_cluster_with_such_a_node_does_not_begin_to_scrub(world: World) -> None:
    exclusive = GpuSpec(sharing="exclusive")
    up(world, 2, gpus=exclusive)
    world.create("c002", environment=(f"NVIDIA_VISIBLE_DEVICES={world.gpus.gpus[3].uuid}",))
    with pytest.raises(UsageError, match="c002 shares its GPUs") as caught:
        up(world, 2, gpus=changed(exclusive, scrub=True))
    assert "gpuprov rm c002" in caught.value.fix
    assert "scrub" not in world.file("c001", GPUS)
    remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    up(world, 2, gpus=changed(exclusive, scrub=True))
    assert world.file("c001", GPUS).endswith(" scrub\n")


def test_a_node_that_joins_gets_the_same_password_and_no_other_changes(world: World) -> None:
    up(world)
    before = {name: world.file(name, BROKER) for name in world.names}
    assert [line for line in up(world, 4).changed if "renew" in line] == ["renew /etc/hosts on c[000-002]"]
    assert {world.file(name, BROKER) for name in world.names} == set(before.values())


def test_what_somebody_changed_is_put_right_and_read_again(world: World) -> None:
    up(world)
    world.engine.nodes["c001"].files[BROKER] = File(path=BROKER, content=b"amqp://x:y@10.9.9.9/z\n")
    (line,) = up(world).changed
    assert line == f"renew {BROKER} on c001"
    assert world.file("c001", BROKER) == world.file("c000", BROKER)
    world.engine.nodes["c002"].files.pop(APPLIED)
    assert up(world).changed == ("restart the workers on c002",)


@pytest.mark.parametrize("content", [b"", b"amqp://gpuwork:short@10.0.5.1/x", b"x" * 5000, b"\xff" * 100])
def test_what_root_in_a_node_wrote_in_place_of_the_password_goes_nowhere(world: World, content: bytes) -> None:
    up(world)
    good = world.file("c001", BROKER)
    world.engine.nodes["c000"].files[BROKER] = File(path=BROKER, content=content)
    up(world)
    assert world.file("c000", BROKER) == good
    for node in world.engine.nodes.values():
        node.files[BROKER] = File(path=BROKER, content=content)
    with pytest.raises(EngineError, match="c000 does not have the broker's password, and neither does") as caught:
        read_password(world.driver, world.names, cluster="lab")
    assert caught.value.fix.endswith("gpuprov cluster down lab; gpuprov cluster up")


def test_a_broker_of_the_user_s_needs_none_in_a_node(world: World) -> None:
    up(world, worker=WorkerSpec(broker="redis://:pass@10.1.1.1/0"))
    assert {world.file(name, BROKER) for name in world.names} == {"redis://:pass@10.1.1.1/0\n"}
    assert not any(DEFINITIONS in node.files for node in world.engine.nodes.values())


def test_what_is_secret_is_hashed_with_a_salt_of_its_own() -> None:
    assert hash_password(SECRET) == hash_password(SECRET) != hash_password(b"cd" * 32)
    assert not any(SECRET in file.content for file in broker_files(SECRET, "10.0.5.1"))


def test_the_broker_s_node_alone_has_the_page_with_a_password_that_follows_from_the_broker_s(world: World) -> None:
    up(world)
    (name,) = [name for name, node in world.engine.nodes.items() if FLOWER in node.files]
    file = world.engine.nodes[name].files[FLOWER]
    assert (name, file.mode, file.uid, file.gid) == ("c000", 0o640, 0, 59400)
    broker = BROKER_FILE.key_in(world.engine.nodes["c000"].files[BROKER].content)
    assert broker
    told: dict[str, Any] = {}
    exec(file.content, {}, told)  # as Flower does
    assert told == {
        "address": "127.0.0.1",
        "port": 5555,
        "basic_auth": [f"gpuprov:{page_password(broker)}"],
        "read_only": True,
        "persistent": False,
        "max_tasks": 2000,
    }
    assert broker not in file.content
    assert PAGE_FILE.key_in(file.content) == page_password(broker).encode()
    assert file == page_file(broker)


def test_passwords_of_pages_are_as_different_as_those_of_brokers() -> None:
    # printf flower | openssl dgst -sha256 -hmac abab...
    assert page_password(SECRET) == "1e457e1fb4196f074deb8270e50629c0"
    assert page_password(b"ac" * 32) != page_password(SECRET)


def test_the_page_is_started_again_where_it_is_and_nowhere_else(world: World) -> None:
    up(world)
    world.slurm.restarted.clear()
    for name in world.names:
        world.engine.nodes[name].files.pop(APPLIED)
    up(world)
    assert sorted(world.slurm.restarted) == [
        ("c000", "gpuwork"),
        ("c000", "gpuwork-flower"),
        ("c001", "gpuwork"),
        ("c002", "gpuwork"),
    ]


def test_the_broker_is_not_removed_alone_and_nodes_need_it(world: World) -> None:
    up(world)
    with pytest.raises(UsageError, match="c000 is the broker of the workers of cluster lab"):
        remove_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    world.down()
    with pytest.raises(UsageError, match="cluster lab has no broker of the workers for c001 to join"):
        world.create("c001", role="worker")
    with pytest.raises(UsageError, match="cannot reach the broker") as caught:
        world.create("c000", role="worker", network="nat")
    assert "private network" in caught.value.evidence
    assert world.names == []


def record(node: str, *, busy: bool = False, name: str = "") -> Worker:
    return Worker(name=name or f"GPU-1@{node}", node=node, pid=1, gpu="GPU-1", busy=busy, task_gpu=None)


def test_a_node_is_ready_when_all_its_workers_answer() -> None:
    expected = {"c000": 1, "c001": 2, "c002": 0}
    assert describe_workers([], expected) == {"c000": "0 of 1 workers", "c001": "0 of 2 workers", "c002": "idle"}
    twice = [record("c001"), record("c001"), record("c000", busy=True)]
    assert describe_workers(twice, expected)["c001"] == "1 of 2 workers"
    assert describe_workers(twice, expected)["c000"] == "busy"
    fault = changed(record("c000"), fault="GPU-1 was not scrubbed (status 1): no")
    assert describe_workers([fault], expected)["c000"] == "0 of 1 workers, GPU not scrubbed"
    assert all(ROLES["worker"].is_ready(word) for word in ("idle", "busy"))
    assert not ROLES["worker"].is_ready("1 of 2 workers")


@pytest.mark.parametrize(
    "change",
    [
        {"workers": [{}]},
        {"workers": "many"},
        {"waiting": -1},
        {"workers": [{**write(record("c000")), "node": "c000\n"}]},
        {"workers": [{**write(record("c000")), "busy": 1}]},
        {"more": 1},
        {"schema": "gpuprov.jobs/v1"},
    ],
)
def test_anything_else_is_no_answer(change: dict[str, Any]) -> None:
    good = {"schema": "gpuprov.workers/v1", "version": 1, "waiting": 0, "workers": [write(record("c000"))]}
    assert read(Workers, good).workers == (record("c000"),)
    with pytest.raises(ValueError, match=r".+"):
        read(Workers, {**good, **change})


def test_who_does_not_come_up_is_named_with_the_last_words_of_its_workers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_READY_BUDGET_S", 0.0)
    monkeypatch.setattr("gpuprov.cluster.services.read_log", lambda _driver, name, _service: f"no tzdata\non {name}\n")
    world.workers.broken.add("c001")
    with pytest.raises(TimedOut, match="for the workers of 3 nodes to answer") as caught:
        up(world)
    assert "'c001': '0 of 1 workers'" in caught.value.evidence
    assert caught.value.evidence.endswith("c001: no tzdata\nc001: on c001")


def test_a_job_keeps_its_node_and_what_waits_keeps_the_last_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    up(world)
    jobs_say(world, monkeypatch, ("7", "running", "c001"), ("8", "waiting", None), ("6", "done", "c002"))
    stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    with pytest.raises(UsageError) as caught:
        stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert "7 of work (train) on c001" in caught.value.evidence
    with pytest.raises(UsageError) as caught:
        world.down()
    assert "8 of work (train) waiting" in caught.value.evidence


def test_a_broker_that_is_stopped_takes_no_jobs(world: World) -> None:
    up(world)
    assert get_controller(world.driver, "lab").node == "c000"
    stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    with pytest.raises(UsageError, match="cluster lab takes no jobs now: c000 is stopped") as caught:
        get_controller(world.driver, "lab")
    assert caught.value.fix == "start it: gpuprov start c000"


def test_a_broker_that_does_not_answer_is_no_word_of_the_nodes(world: World) -> None:
    up(world)
    world.engine.nodes["c000"].files.pop(DEFINITIONS)
    state = observe_cluster(world.driver, "lab")
    assert ROLES["worker"].states(world.driver, state) == {}


def test_the_program_s_own_words_reach_the_user(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    up(world)
    answer = ExecResult(exit_code=1, stdout="", stderr="python3: No module named gpuwork")
    monkeypatch.setattr(type(world.workers), "__call__", lambda _self, _command: answer)
    with pytest.raises(EngineError, match="the image of c000 does not support jobs"):
        get_controller(world.driver, "lab").list_jobs()


def test_nodes_that_an_early_gpuprov_called_workers_are_removed(world: World) -> None:
    up(world)
    for node in world.engine.nodes.values():
        node.mounts = ()
        node.files.pop(BROKER)
    world.down()
    assert world.names == []
