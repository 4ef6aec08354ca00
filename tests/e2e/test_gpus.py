"""GPUs as a resource, on real engines: jobs in Docker, nodes in LXD, and a queue."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.test_refusals import has_three_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

HAS = re.compile(r"(job-[0-9a-f]{8}) has (.*)")
MOST = 64
BUDGET_S = 60.0
WAITS = ("sh", "-c", "trap 'exit 0' TERM; echo up; sleep 600 & wait")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A `gpuprov run` whose command runs."""

    process: subprocess.Popen[str]
    name: str
    gpus: tuple[int, ...]

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        self.process.communicate(timeout=BUDGET_S)
        return self.process.returncode


@dataclass(frozen=True, kw_only=True)
class TwoGpus:
    """A host with two free GPUs, numbers `first` and `second`; whatever comes before them is held.

    Names of these tests begin with `mark`.
    """

    gpuprov: Gpuprov
    docker: Any
    image: str
    first: int
    mark: str

    @property
    def second(self) -> int:
        return self.first + 1

    @property
    def variables(self) -> dict[str, str]:
        return {"GPUPROV_SIMULATED_GPUS": str(self.second + 1)}

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov(*argv, expect=expect, variables=self.variables)

    def run(self, *options: str, command: tuple[str, ...] = ("true",), expect: int = 0) -> Finished:
        return self("run", *options, "--image", self.image, "--", *command, expect=expect)

    def popen(self, *options: str, command: tuple[str, ...] = WAITS) -> subprocess.Popen[str]:
        argv = ("run", *options, "--image", self.image, "--", *command)
        return self.gpuprov.start(*argv, variables=self.variables)

    @contextmanager
    def job(self, *options: str) -> Iterator[Job]:
        """A job that runs until it is ended, or the block is."""
        process = self.popen(*options)
        try:
            yield running(process)
        finally:
            process.terminate()
            process.communicate(timeout=BUDGET_S)

    def holders(self) -> dict[int, list[str]]:
        """Names of who holds each of the two."""
        document = self("--json", "gpus").document
        rows = {row["index"]: [held["node"] for held in row["holders"]] for row in document["gpus"]}
        return {number: rows[number] for number in (self.first, self.second)}

    def containers(self) -> list[str]:
        """Every job that Docker has; asked of Docker itself."""
        listed = self.docker.containers(all=True, filters={"label": "gpuprov.role=job"})
        return [name.lstrip("/") for item in listed for name in item["Names"]]


def running(process: subprocess.Popen[str]) -> Job:
    assert process.stderr
    assert process.stdout
    said = ""
    for line in process.stderr:
        said += line
        found = HAS.search(line)
        if found:
            assert process.stdout.readline() == "up\n"
            gpus = tuple(int(number) for number in re.findall(r"GPU ([0-9]+) ", found[2]))
            return Job(process=process, name=found[1], gpus=gpus)
    raise AssertionError(said)


@pytest.fixture(scope="module")
def image(docker: Any) -> str:
    """A small one with python3, which others have made before."""
    del docker
    from tests.contract.engines import DockerSite

    return DockerSite().base_image()


@pytest.fixture(scope="module")
def two(gpuprov: Gpuprov, docker: Any, image: str, place: Place, cluster: Finished) -> Iterator[TwoGpus]:
    """What others hold stays theirs; a job of ours holds what is free before the two."""
    del cluster  # it is up before its GPUs are given away
    gpus = gpuprov("--json", "gpus", variables={"GPUPROV_SIMULATED_GPUS": str(MOST)}).document["gpus"]
    held = [row["index"] for row in gpus if row["holders"]]
    first = max(4, max(held, default=-1) + 1)
    assert first + 1 < MOST
    host = TwoGpus(gpuprov=gpuprov, docker=docker, image=image, first=first, mark=place.mark)
    free = [number for number in range(first) if number not in held]
    with ExitStack() as stack:
        if free:
            stack.enter_context(host.job("--gpus", ",".join(f"gpu{number}" for number in free)))
        yield host


def test_the_reference_sequence(two: TwoGpus) -> None:
    before = two.containers()
    with two.job("--gpus", "1") as one, two.job("--gpus", "1") as other:
        assert (one.gpus, other.gpus) == ((two.first,), (two.second,))
        assert two.holders() == {two.first: [one.name], two.second: [other.name]}
        refused = two.run("--gpus", "1", expect=2)
        has_three_parts(refused)
        assert f"{one.name} (exclusive, docker)" in refused.stderr
        assert f"{other.name} (exclusive, docker)" in refused.stderr
        assert other.end() == 130
        with two.job("--gpus", "1") as again:
            assert again.gpus == (two.second,)
    assert two.holders() == {two.first: [], two.second: []}
    assert two.containers() == before


def test_streams_and_status_are_the_commands_own(two: TwoGpus) -> None:
    line = f"printf 'a\\377b'; echo err >&2; ls /dev/nvidia*; python3 -c 'open(\"/dev/nvidia{two.first}\")'; exit 3"
    process = subprocess.run(
        [two.gpuprov.program, "-q", "run", "--gpus", "1", "-e", "A=b=c", "--image", two.image, "--", "sh", "-c", line],
        check=False,
        capture_output=True,
        env={**two.gpuprov.environment, **two.variables},
    )
    assert process.returncode == 3
    assert process.stdout == b"a\xffb" + f"/dev/nvidia{two.first}\n/dev/nvidiactl\n".encode()
    assert b"\nerr\n" in process.stderr
    assert b"Errno 6" in process.stderr, "ENXIO: let in, and no driver behind it"


def test_a_gpu_that_is_not_leased_cannot_be_opened(two: TwoGpus) -> None:
    program = (
        "import errno, os, sys\n"
        "try:\n"
        f"    os.mknod('/tmp/x', 0o20666, os.makedev(195, {two.second}))\n"
        "    os.open('/tmp/x', os.O_RDWR)\n"
        "except OSError as error:\n"
        "    sys.exit(errno.errorcode[error.errno])\n"
    )
    refused = two.run("--gpus", f"gpu{two.first}", command=("python3", "-c", program), expect=1)
    assert refused.stderr.strip().endswith("EPERM")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing(two: TwoGpus, how: signal.Signals) -> None:
    before = two.containers()
    with two.job("--gpus", "2") as job:
        assert job.gpus == (two.first, two.second)
        assert job.end(how) == 130
        assert two.containers() == before
    assert two.holders() == {two.first: [], two.second: []}


def test_a_killed_run_leaves_a_lease_that_is_seen_and_the_next_run_removes_it(two: TwoGpus) -> None:
    before = two.containers()
    with two.job("--gpus", "2") as job:
        assert job.end(signal.SIGKILL) == -signal.SIGKILL
    assert two.holders() == {two.first: [job.name], two.second: [job.name]}
    assert job.name in two("list").stdout
    next_one = two.run("--gpus", "2")
    assert f"removing {job.name}" in next_one.stderr
    assert two.containers() == before
    with two.job("--gpus", "1") as job:
        job.end(signal.SIGKILL)
    assert two("rm", job.name).stdout == f"removed {job.name}\n"
    assert two.containers() == before


def test_created_containers_hold_and_renamed_ones_and_those_removed_by_hand_do_not(two: TwoGpus, docker: Any) -> None:
    odd = f"{two.mark}-odd_name.1"
    with two.job("--gpus", "1") as job:
        docker.rename(job.name, odd)
        assert two.holders()[two.first] == []
        (told,) = two("--json", "gpus").document["foreign"]
        assert (told["node"], told["copy_of"], told["devices"]) == (odd, job.name, [f"/dev/nvidia{two.first}"])
        docker.rename(odd, job.name)
        assert two.holders()[two.first] == [job.name]
        docker.remove_container(job.name, force=True)
        job.process.communicate(timeout=BUDGET_S)
        assert job.process.returncode == 137
    assert two.holders()[two.first] == []
    created = _create_only(two, docker)
    try:
        assert two.holders()[two.first] == [created]
        assert f"{created} (exclusive, docker, stopped)" in two.run("--gpus", "2", expect=2).stderr
    finally:
        docker.remove_container(created, force=True)
    assert two.run("--gpus", "2").exit_code == 0


def _create_only(two: TwoGpus, docker: Any) -> str:
    """What a run leaves that dies between making its container and starting it, its owner still alive; its name."""
    with two.job("--gpus", "1") as job:
        made = docker.inspect_container(job.name)
    config = made["Config"]
    body = {"Image": config["Image"], "Cmd": config["Cmd"], "Labels": config["Labels"]}
    body["Labels"]["gpuprov.process"] = "somewhere else entirely 1 2"
    docker.create_container_from_config({**body, "HostConfig": {"AutoRemove": True}}, job.name)
    return job.name


@pytest.mark.long  # tests/e2e/test_incus.py has one pool of three engines
def test_docker_and_lxd_never_give_the_same_gpu(two: TwoGpus) -> None:
    name = f"{two.mark}-lxd"
    node = ("create-node", name, "--cluster", "gpte2e", "--role", "plain", "--gpu-mode", "simulated")
    try:
        with two.job("--gpus", "1") as job:
            assert job.gpus == (two.first,)
            refused = two(*node, "--gpus", f"gpu{two.first}", "--exclusive", expect=2)
            assert f"{job.name} (exclusive, docker)" in refused.stderr
            two(*node, "--gpus", "1", "--exclusive")
            assert two.holders() == {two.first: [job.name], two.second: [name]}
            assert f"{name} (cluster gpte2e, exclusive, lxd)" in two.run("--gpus", "1", expect=2).stderr
            assert (
                f"{name} (cluster gpte2e, exclusive, lxd)"
                in two.run("-e", f"NVIDIA_VISIBLE_DEVICES={two.second}", expect=2).stderr
            )
        two("stop", name)
        assert (
            f"{name} (cluster gpte2e, exclusive, lxd, stopped)"
            in two.run("--gpus", f"gpu{two.second}", expect=2).stderr
        )
    finally:
        two("rm", name)
    two.run("--gpus", f"gpu{two.second}")


def test_a_queue_in_order_that_a_killed_waiter_leaves(two: TwoGpus) -> None:
    def waiting() -> list[str]:
        found: list[str] = two("--json", "gpus").document["waiting"]
        return found

    echo = ("sh", "-c", "date +%s.%N; sleep 0.2")
    with two.job("--gpus", "2") as holder, ExitStack() as stack:
        waiters = []
        for number in range(3):
            waiters.append(stack.enter_context(two.popen("--gpus", "2", "--wait", "60", command=echo)))
            wait_for(lambda number=number: len(waiting()) == number + 1)  # type: ignore[misc]
        waiters[0].kill()
        waiters[0].communicate()
        assert len(waiting()) == 2
        assert holder.name in two.run("--gpus", "1", expect=2).stderr
        started_s = time.monotonic()
        late = two.run("--gpus", "1", "--wait", "1", expect=6)
        assert 1 <= time.monotonic() - started_s < BUDGET_S
        has_three_parts(late)
        holder.end()
        times = [float(waiter.communicate(timeout=BUDGET_S)[0]) for waiter in waiters[1:]]
    assert times[0] < times[1]
    assert waiting() == []


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + BUDGET_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_many_at_once_for_the_last_gpu(two: TwoGpus) -> None:
    """Processes of their own; tests/unit has fifty threads."""
    with two.job("--gpus", "1"), ThreadPoolExecutor(8) as pool:
        processes = list(pool.map(lambda _: two.popen("--gpus", "1", command=("sleep", "30")), range(8)))
        try:
            wait_for(lambda: sum(process.poll() is None for process in processes) == 1)
            time.sleep(0.2)
            assert sorted(process.poll() or 0 for process in processes) == [0, *[2] * 7]
        finally:
            for process in processes:
                process.terminate()
                process.communicate(timeout=BUDGET_S)


NONSENSE = {
    "--gpus=-1": "there is no GPU '-1'",
    "--gpus=0x": "there is no GPU '0x'",
    "--gpus=0,0": "GPU 0 is named twice",
    "--gpus=99": "there are fewer than 99 GPUs",
    "--gpu-memory=1PB": "is not a valid amount of memory",
    "--gpu-memory=1000GiB": "there is no GPU with at least 1000 GiB of memory",
    "--gpu-model=Voodoo": "there is no GPU with a model name that contains 'Voodoo'",
    "--wait=soon": "is not a valid duration",
    "-eNVIDIA_VISIBLE_DEVICES=all --exclusive": "contradicts",
    "-eHOUDINI_GPU_REQUESTED=1 --gpus=2": "contradicts",
    "-eHOUDINI_GPU_ENABLED=perhaps": "is neither true nor false",
}


def test_nonsense_is_refused(two: TwoGpus) -> None:
    with ThreadPoolExecutor(4) as pool:
        refusals = list(pool.map(lambda options: two.run("-q", *options.split(), expect=2), NONSENSE))
    for refused, words in zip(refusals, NONSENSE.values(), strict=True):
        has_three_parts(refused)
        assert words in refused.stderr


def test_watch_tells_who_takes_and_releases(two: TwoGpus) -> None:
    with two.gpuprov.start("--json", "gpus", "--watch", "0.2", variables=two.variables) as watch:
        assert watch.stdout
        assert json.loads(watch.stdout.readline())["schema"] == "gpuprov.gpus/v1"
        with two.job("--gpus", "1") as job:
            changes = json.loads(watch.stdout.readline())["changes"]
            assert [(one["kind"], one["label"], one["holder"]["node"]) for one in changes] == [
                ("held", str(two.first), job.name)
            ]
        assert json.loads(watch.stdout.readline())["changes"][0]["kind"] == "released"
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=BUDGET_S)
        assert watch.returncode == 130
