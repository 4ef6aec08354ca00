"""Work where something is in its way: limits of the broker, nodes that go, Ctrl-C, and what is not a job's own."""

from __future__ import annotations

import re
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.conftest import output
from tests.e2e.desk import KILL_NODE, Desk, again_within, kinds, lasting, open_desk
from tests.e2e.job_attempts import attempt_as_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

pytestmark = pytest.mark.long

SLURM, WORKERS = (kinds(role, {("lxd", "worker")}) for role in ("slurm", "worker"))
NO_LIMIT = "application:set_env(rabbit, consumer_timeout, undefined)."
SHORT_LIMIT = (
    "application:set_env(rabbit, consumer_timeout, 3000), application:set_env(rabbit, channel_tick_interval, 1000)."
)


@pytest.fixture(scope="module", params=[*WORKERS, *SLURM])
def desk(
    request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    with open_desk(request, gpuprov, place, tmp_path_factory) as made:
        yield made


def resize(desk: Desk, count: int) -> None:
    name = ("--name", desk.place.cluster, "--engine", desk.engine)
    desk.gpuprov("cluster", "up", "-n", str(count), *name, "--no-verify")


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_a_run_that_outlives_the_broker_s_limit_begins_once(desk: Desk) -> None:
    """RabbitMQ's limit is half an hour by default; here seconds, for what is connected afterwards."""

    def tell_broker(line: str) -> str:
        return desk.gpuprov.in_node(desk.controller, "rabbitmqctl", "eval", line)

    assert "{ok,undefined}" in tell_broker("application:get_env(rabbit, consumer_timeout).")
    try:
        tell_broker(SHORT_LIMIT)
        desk.gpuprov.in_node(desk.controller, "rabbitmqctl", "close_all_connections", "--global", "a limit")
        job = desk.begin(*lasting(15))
        desk("jobs", "wait", job)
        shown = desk.shown(job)
        logs = "".join(path.read_text(errors="replace") for path in (desk.folder / "logs").rglob("*.log"))
        assert "delivery acknowledgement on channel" in logs, f"the limit was not reached: {logs[-3000:]}"
        assert (shown["state"], shown["tries"], desk.log(job).count("whole")) == ("done", 1, 1), shown
    finally:
        tell_broker(NO_LIMIT)
        desk.gpuprov.in_node(desk.controller, "rabbitmqctl", "close_all_connections", "--global", "no limit")


@pytest.fixture
def neighbour(desk: Desk, tmp_path: Path) -> Iterator[str]:
    """The address of the broker of another cluster."""
    place, name = desk.place, f"{desk.place.mark}-b"
    networks = {"bridge": f"{place.mark}2", "subnet": place.subnet(2), "private_bridge": f"{place.mark}3"}
    text = place.spec(engine=desk.engine, count=1, nodes="role: worker", share="true", **networks,
                      private_subnet=place.subnet(3))  # fmt: skip
    text = text.replace(f"name: {place.cluster}", f"name: {name}")
    text = text.replace(f"prefix: {place.mark},", f"prefix: {place.mark}x,")
    spec = tmp_path / "neighbour.yaml"
    spec.write_text(text)
    desk.gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    url = desk.gpuprov.in_node(f"{place.mark}x000", "cat", "/etc/gpuwork/broker")
    yield url.partition("@")[2].partition(":")[0]
    desk.gpuprov("cluster", "down", name, "--engine", desk.engine, "--force", "--purge", "--yes")


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_a_job_does_not_get_into_the_queue_of_another_cluster(desk: Desk, neighbour: str) -> None:
    for told in attempt_as_jobs(desk, (neighbour,)).values():
        assert told["own"] == "entered", told
        assert told[neighbour] != "entered", told


@contextmanager
def watched_processes(secrets: set[str]) -> Iterator[set[str]]:
    """Which of these are shown by any process of the host, and so of its nodes, during the block; and a control."""
    shown: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        text = (process / name).read_bytes().decode(errors="replace")
                        shown.update(secret for secret in secrets if secret in text)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield shown
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_no_process_and_no_log_shows_the_password_while_a_cluster_is_worked_with(desk: Desk) -> None:
    url = desk.gpuprov.in_node(desk.controller, "cat", "/etc/gpuwork/broker")
    password = url.partition("gpuwork:")[2].partition("@")[0]
    assert re.fullmatch("[0-9a-f]{64}", password)
    logs = Path("/var/log/gpuprov")
    before = set(logs.glob("*.log"))
    with watched_processes({password, "gpuwork.worker"}) as shown:
        resize(desk, 3)
        desk.gpuprov("verify", "--cluster", desk.place.cluster)
        desk("jobs", "wait", desk.submit("--no-project", "--count", "3", "--", "env"))
        resize(desk, 2)
    assert shown == {"gpuwork.worker"}
    new = [path for path in logs.glob("*.log") if path not in before]
    assert len(new) >= 4
    assert not [path for path in new if password in path.read_text()]
    for node in (desk.place.node(0), desk.place.node(1)):
        said = desk.gpuprov.in_node(node, "sh", "-c", "journalctl --no-pager 2>/dev/null; cat /var/log/*.log; true")
        assert password not in said


@pytest.mark.parametrize(("choice", "state"), [((), "running"), (("--on-interrupt", "cancel"), "cancelled")])
def test_ctrl_c_of_a_wait_leaves_the_job_or_cancels_it(desk: Desk, choice: tuple[str, ...], state: str) -> None:
    with desk.gpuprov.start(*desk.typed(("submit", "--wait", *choice, *lasting(600)))) as process:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"submitted (\d+)$", said, re.MULTILINE)):
            line = process.stderr.readline()
            assert line, said
            said += line
        job = found[1]
        desk.await_state(job, "running")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert desk.shown(job)["state"] == state
    desk("jobs", "cancel", job)


@pytest.mark.parametrize("desk", WORKERS, indirect=True)
def test_a_node_that_is_drained_takes_no_more_of_what_waits_and_nothing_is_lost(desk: Desk) -> None:
    resize(desk, 3)
    third = desk.place.node(2)
    job = desk.submit("--no-project", "--count", "12", "--", "sleep", "5")
    Wait(what="a run on the third node", timeout_s=60, fix="look at the queue").until(
        lambda: [row for row in desk.rows(job) if row["node"] == third and row["state"] == "running"], bool
    )
    desk.gpuprov("rm", third, "--drain", "2m")
    rows = desk.rows(job)
    assert [row for row in rows if row["state"] == "waiting"], "it did not wait for what others are to run"
    assert len([row for row in rows if row["node"] == third]) <= 2
    desk("jobs", "wait", job)
    assert [(row["state"], row["tries"]) for row in desk.rows(job)] == [("done", 1)] * 12
    resize(desk, 3)
    job = desk.submit("--no-project", "--count", "3", "--", "sleep", "3")
    desk("jobs", "wait", job)
    assert third in {row["node"] for row in desk.rows(job)}, "one of its name takes work"
    resize(desk, 2)


@pytest.mark.parametrize("desk", SLURM, indirect=True)
def test_a_run_on_slurm_whose_program_is_killed_runs_again(desk: Desk) -> None:
    job = desk.begin(*lasting(5))
    desk.gpuprov.in_node(desk.shown(job)["node"], "pkill", "-KILL", "-f", "gpuwork[.]jobs[.]one")
    again_within(desk, job)


@pytest.mark.parametrize("desk", SLURM, indirect=True)
@pytest.mark.long  # Slurm misses a node after a minute, and begins its jobs two minutes later
def test_a_run_on_slurm_whose_node_dies_runs_again_elsewhere(desk: Desk) -> None:
    jobs = [desk.begin(*lasting(30)) for _ in range(2)]
    second = desk.place.node(1)
    (job,) = (job for job in jobs if desk.shown(job)["node"] == second)
    output(*KILL_NODE[desk.engine], second)
    again_within(desk, job, seconds=300)
    assert desk.shown(job)["node"] == desk.controller
    desk.gpuprov("start", second)
