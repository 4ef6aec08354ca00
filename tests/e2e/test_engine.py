"""The engine itself: restarted under running nodes, and not fit to make any."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

IDLE = dict.fromkeys(["e000", "e001", "e002", "e003"], "idle")
PID_FILE = Path("/run/gpuprov/lxd.pid")  # of a daemon that `host prepare` started


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 120
    with suppress(FileNotFoundError, ProcessLookupError):
        while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < deadline, f"process {pid} does not end"
            time.sleep(0.1)


def restart_engine(gpuprov: Gpuprov, host: Callable[..., str]) -> None:
    if PID_FILE.exists():
        pid = int(PID_FILE.read_text())
        os.kill(pid, signal.SIGTERM)
        try:
            wait_for_end(pid)
            assert "gpuprov host prepare" in gpuprov("list", "--engine", "lxd", expect=3).stderr
        finally:
            gpuprov("host", "prepare")  # other tests need it
    elif os.environ.get("CI"):
        host("systemctl", "restart", "lxd")
    else:
        pytest.skip("somebody else started this LXD: not ours to restart")


@pytest.mark.alone
def test_nodes_outlive_a_restart_of_the_engine(
    gpuprov: Gpuprov,
    host: Callable[..., str],
    cluster: Finished,  # noqa: ARG001 - its nodes
) -> None:
    boots = {name: gpuprov.in_node(name, "cat", "/proc/1/stat") for name in IDLE}
    restart_engine(gpuprov, host)
    assert {name: gpuprov.in_node(name, "cat", "/proc/1/stat").split()[21] for name in IDLE} == {
        name: stat.split()[21] for name, stat in boots.items()
    }
    assert gpuprov.slurm_states() == IDLE
    assert sorted(gpuprov.in_node("e000", "srun", "-N4", "hostname").split()) == list(IDLE)


@pytest.fixture(scope="module")
def bare_engine(gpuprov: Gpuprov, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:  # noqa: ARG001
    """The environment of a second LXD that has nothing, not even a place to put nodes."""
    folder = tmp_path_factory.mktemp("lxd")
    variables = {"LXD_DIR": str(folder)}
    with subprocess.Popen(
        ["lxd", "--group", "root", "--logfile", str(folder / "lxd.log")],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as daemon:
        try:
            wait = ["lxd", "waitready", "--timeout", "30"]
            subprocess.run(wait, env={**os.environ, **variables}, check=True, capture_output=True)
            yield variables
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)
            for place in ("devlxd", "shmounts"):
                subprocess.run(["umount", "--lazy", str(folder / place)], check=False, capture_output=True)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, place: Place) -> tuple[str, ...]:
    spec = tmp_path_factory.mktemp("spec") / "spec.yaml"
    spec.write_text(place.spec(count=16))
    return ("cluster", "up", "-f", str(spec))


def test_an_engine_without_storage(gpuprov: Gpuprov, bare_engine: dict[str, str], up: tuple[str, ...]) -> None:
    refused = gpuprov(*up, expect=3, variables=bare_engine)
    assert "no storage pool" in refused.stderr
    assert "gpuprov host prepare" in refused.stderr


def test_an_engine_without_room(
    gpuprov: Gpuprov, bare_engine: dict[str, str], place: Place, up: tuple[str, ...]
) -> None:
    def engine(*argv: str) -> str:
        environment = {**os.environ, **bare_engine}
        return subprocess.run(["lxc", *argv], env=environment, check=True, capture_output=True, text=True).stdout

    engine("storage", "create", "small", "btrfs", "size=200MiB")
    try:
        refused = gpuprov(*up, expect=3, variables=bare_engine)
        assert "not enough space in the engine's storage for 16 nodes" in refused.stderr
        assert "MiB free" in refused.stderr
        networks = json.loads(engine("query", "/1.0/networks?recursion=1"))
        assert f"{place.mark}0" not in [network["name"] for network in networks]
    finally:
        engine("storage", "delete", "small")


def test_a_dead_lxcfs_is_named_with_its_command(gpuprov: Gpuprov, tmp_path: Path) -> None:
    """One of the test's own dies in a namespace of mounts: the host's serves everybody's nodes."""
    script = f"""
        lxcfs -p {tmp_path}/pid /var/lib/lxcfs >/dev/null 2>&1 &
        for _ in $(seq 50); do [ -s {tmp_path}/pid ] && mountpoint -q /var/lib/lxcfs && break; sleep 0.1; done
        kill -KILL $!; wait $!; exec "$@"
    """
    died = gpuprov("doctor", before=("unshare", "--mount", "sh", "-c", script, "sh"), expect=3)
    assert "fail    lxcfs           /var/lib/lxcfs: Transport endpoint is not connected" in died.stdout
    assert "lxcfs: sudo gpuprov host prepare --engine lxd " in died.stdout
