"""Root in a node makes its files and programs what it likes: each call of a driver ends all the same, within limits."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import File, Unreadable
from tests.contract.engines import FIND_PROCESS, LxdSite, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.engines import Bench

pytestmark = pytest.mark.usefixtures("real")
# Counts the processes of this name.
COUNT = """
import pathlib
def name(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""
print(sum(name(path) == "{name}" for path in pathlib.Path("/proc").glob("[0-9]*/comm")))
"""
ODD = {
    "fifo": "mkfifo odd",
    "device": "ln -s /dev/zero odd",
    "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"odd\")'",
    "folder": "mkdir odd",
    "loop": "ln -s odd odd",
    "two-link loop": "ln -s odd other; ln -s other odd",
    "link to a fifo": "mkfifo fifo; ln -s fifo odd",
    "broken link": "ln -s /nowhere odd",
    "large": "head -c 5000 /dev/zero >odd",
    "sparse": "truncate -s 1T odd",
}


@pytest.fixture
def hostile(bench: Bench) -> Iterator[str]:
    """A running node whose root is not ours; it can be removed, whatever a test did to it."""
    name = bench.create(start=True)
    bench.await_boot(name)
    yield name
    bench.driver.delete_node(name)
    assert bench.status(name) == "absent"


def test_only_regular_files_within_the_limit_are_read(bench: Bench, hostile: str) -> None:
    for number, line in enumerate(ODD.values()):
        bench.sh(hostile, f"mkdir /opt/{number}; cd /opt/{number}; {line}")
    for running in (True, False):
        if not running:
            bench.driver.stop_node(hostile)
        for number in range(len(ODD)):
            with refused(Unreadable):
                bench.driver.pull(hostile, f"/opt/{number}/odd", most_bytes=4000)


SPARSE = "truncate -s 1T /opt/sparse"
# A path that is too long to look at by name; tools that measure the files fail.
DEEP = f"""mkdir /opt/deep; cd /opt/deep; python3 -c 'import os
for n in range(2500):
    os.mkdir("dd"); os.chdir("dd")'; {SPARSE}"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lines", [SPARSE, DEEP], ids=["sparse", "deep"])
@pytest.mark.parametrize("running", [True, False])
def test_holes_of_a_sparse_file_do_not_fill_the_disk_of_the_host(
    bench: Bench, hostile: str, running: bool, lines: str
) -> None:
    bench.need("snapshot")
    bench.sh(hostile, lines)
    if not running:
        bench.driver.stop_node(hostile)
    try:
        bench.driver.snapshot_node(hostile, "sparse")
    except EngineError as error:
        words = ("sparse", "unknown", "file name too long")
        assert any(word in error.evidence for word in words)  # noqa: PT017 - an engine may keep holes as holes
        with refused(EngineError):
            bench.driver.clone_node(hostile, bench.request())
    assert bench.status(hostile) == ("running" if running else "stopped")


def test_whatever_stands_in_the_way_of_a_file_is_replaced_unless_it_is_a_folder(bench: Bench, hostile: str) -> None:
    for number, line in enumerate(ODD.values()):
        bench.sh(hostile, f"mkdir -p /opt/{number} /srv/{number}; cd /opt/{number}; {line}; cd /srv/{number}; {line}")
    for running, folder in ((True, "/opt"), (False, "/srv")):
        if not running:
            bench.driver.stop_node(hostile)
        for number, kind in enumerate(ODD):
            file = File(path=f"{folder}/{number}/odd", content=b"new", mode=0o640)
            if kind == "folder":
                with contextlib.suppress(EngineError):
                    bench.driver.push(hostile, [file])
                continue
            bench.driver.push(hostile, [file])
            assert bench.driver.pull(hostile, file.path) == b"new", kind


def test_output_without_end_is_cut_and_its_command_ended(bench: Bench, hostile: str) -> None:
    with refused(EngineError):
        bench.driver.run(hostile, ["sh", "-c", "trap '' TERM HUP PIPE; while :; do cat /dev/zero >&2; done"])
    with refused(EngineError):
        bench.driver.run(hostile, ["yes"])
    ended = Wait(what="yes to end", timeout_s=10, fix="look")
    ended.until(lambda: bench.python(hostile, COUNT.format(name="yes")), lambda count: count == "0")


LONG = [pytest.param(program, marks=pytest.mark.long) for program in ("head", "tar", "sh")]


@pytest.mark.parametrize("program", ["timeout", *LONG])
def test_programs_of_the_node_that_never_end_are_ended_from_outside(
    bench: Bench, hostile: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.drivers.node_files._WRITE_S", 1.0)
    monkeypatch.setattr("gpuprov.drivers.calls._GRACE_S", 1.0)
    script = "#!/usr/bin/python3\nimport signal, time\nfor n in range(1, 32):\n"
    script += (
        " try: signal.signal(n, signal.SIG_IGN)\n except OSError: pass\nprint('hello', flush=True)\ntime.sleep(4799)\n"
    )
    path = bench.sh(hostile, f"command -v {program}")
    bench.driver.push(hostile, [File(path="/root/fake", content=script.encode(), mode=0o755)])
    bench.sh(hostile, f"mv -f /root/fake {path}")
    if program != "tar":
        with refused(Unreadable):
            bench.driver.pull(hostile, "/etc/hostname", timeout_s=1.0)
    if program != "head":
        with refused(EngineError):
            bench.driver.push(hostile, [File(path="/root/x", content=b"x")])
    if program == "timeout":
        with refused(TimedOut):
            bench.driver.run(hostile, ["true"], timeout_s=1.0)


def test_a_command_that_closes_its_output_and_goes_on_is_ended(bench: Bench, hostile: str) -> None:
    line = "import os, time; os.close(1); os.close(2); time.sleep(4797)"
    with refused(TimedOut):
        bench.driver.run(hostile, ["python3", "-c", line], timeout_s=1.0)
    assert bench.python(hostile, FIND_PROCESS.format(seconds="4797")) == "0"


def test_a_node_that_does_not_shut_down_is_killed_and_that_is_said(bench: Bench, hostile: str) -> None:
    if "systemd" in bench.driver.capabilities:
        bench.sh(hostile, "ln -sf /dev/null /etc/systemd/system/halt.target; systemctl daemon-reload")
    else:
        bench.sh(hostile, "kill -STOP -1 || true")
    assert "killed" in bench.driver.stop_node(hostile, timeout_s=3.0)
    assert bench.status(hostile) == "stopped"
    assert bench.driver.stop_node(hostile) == ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("verb", "running"), [("stop", True), ("delete", True), ("delete", False)])
def test_a_file_that_lxd_waits_for_holds_up_neither_a_stop_nor_a_removal(
    bench: Bench, hostile: str, monkeypatch: pytest.MonkeyPatch, verb: str, *, running: bool
) -> None:
    """As after `lxc file pull` of a FIFO: LXD's own process waits in the node for ever."""
    monkeypatch.setattr("gpuprov.drivers.lxd.ending._KILL_S", 4.0)
    site = bench.site
    if not isinstance(site, LxdSite):
        pytest.skip("Docker opens no FIFO")
    bench.sh(hostile, "mkfifo /root/fifo")
    if not running:
        bench.driver.stop_node(hostile)

    def pull() -> None:
        with contextlib.suppress(Exception):
            site._client.api.instances[hostile].files.get(params={"path": "/root/fifo"}, is_api=False, timeout=60)

    reader = threading.Thread(target=pull, daemon=True)
    reader.start()
    reader.join(2.0)
    assert reader.is_alive()
    said = bench.driver.stop_node(hostile, timeout_s=3.0) if verb == "stop" else bench.driver.delete_node(hostile)
    # Incus waits for it with a stop that the node is asked for, not with one by force
    held_up = bench.driver.name == "lxd" or verb == "stop" or not running
    assert ("reading a file" in said) == held_up
    assert bench.status(hostile) == ("stopped" if verb == "stop" else "absent")
    reader.join(10.0)
    assert not reader.is_alive()


def test_endless_words_on_the_console_are_read_to_a_limit(bench: Bench, hostile: str) -> None:
    target = "/dev/console" if "systemd" in bench.driver.capabilities else "/proc/1/fd/1"
    bench.sh(hostile, f"(timeout 3 yes | head -c 30000000 >{target}) 2>/dev/null || true")
    assert len(bench.driver.logs(hostile)) <= 4_000_000
