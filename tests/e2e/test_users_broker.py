"""Workers whose broker is one of the user's (`worker.broker`): a real Redis, on the host and reached by NAT."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait
from tests.fakes.redis_server import RedisServer, is_there

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PORT = 26379
LASTING = ("sh", "-c", "until [ -e /run/hit ]; do sleep 0.2; done")  # a job that ends after it was hit


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if not is_there and "CI" not in os.environ:
        pytest.skip("needs redis-tools")
    server = RedisServer(tmp_path_factory.mktemp("redis"), address="0.0.0.0", port=PORT)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def cluster(
    gpuprov: Gpuprov, place: Place, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    spec = tmp_path_factory.mktemp("broker") / "spec.yaml"
    url = f"redis://:{redis.password}@{place.address(0, 1)}:{PORT}/0"
    spec.write_text(
        place.spec(nodes="role: worker", share="true", host_ports=f"[{PORT}]") + f"worker: {{broker: '{url}'}}\n"
    )
    finished = gpuprov("cluster", "up", "-f", str(spec))
    assert redis.password not in finished.all
    yield place.cluster
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_work_and_its_checks_go_by_the_user_s_broker(
    gpuprov: Gpuprov, place: Place, cluster: str, redis: RedisServer
) -> None:
    job = gpuprov("submit", "--cluster", cluster, "--no-project", "--", "hostname").stdout.strip()
    gpuprov("jobs", "wait", "--cluster", cluster, job)
    assert gpuprov("jobs", "logs", "--cluster", cluster, job).stdout.split()[-1] in {place.node(0), place.node(1)}
    report = gpuprov.json("verify", "--cluster", cluster)
    checks = {check["id"]: check["status"] for node in report["nodes"] for check in node["checks"]}
    assert [checks[name] for name in ("broker-answers", "worker-alive", "worker-gpu")] == ["pass"] * 3
    refused = gpuprov("queue", "page", "--cluster", cluster, expect=2)
    assert "its broker is your own" in refused.stderr
    running = gpuprov.in_node(place.node(0), "ps", "-eo", "args")
    assert redis.password not in running
    assert "beam.smp" not in running


def test_a_job_ends_once_though_its_worker_and_the_broker_are_killed(
    gpuprov: Gpuprov, place: Place, cluster: str, redis: RedisServer
) -> None:
    job = gpuprov("submit", "--cluster", cluster, "--no-project", "--", *LASTING).stdout.strip()

    def state() -> str:
        (row,) = gpuprov.json("jobs", "show", "--cluster", cluster, job)["jobs"]
        return str(row["state"])

    Wait(what="the job to run", timeout_s=60, fix="look at the queue").until(state, lambda word: word == "running")
    redis.kill()
    for number in range(2):
        gpuprov("exec", place.node(number), "--", "sh", "-c", "pkill -KILL -f gpuwork[.]worker || true")
    redis.start()
    for number in range(2):
        gpuprov("exec", place.node(number), "--", "touch", "/run/hit")
    gpuprov("jobs", "wait", "--cluster", cluster, job)
    (row,) = gpuprov.json("jobs", "show", "--cluster", cluster, job)["jobs"]
    assert row["state"] == "done"
    assert row["tries"] in (2, 3)  # the second worker may have had it when that was killed
