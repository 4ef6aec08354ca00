from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.verify import probe

if TYPE_CHECKING:
    from collections.abc import Callable


def test_files_are_described(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert probe.describe(str(tmp_path / "file")) == {"kind": "file"}
    assert probe.describe(str(tmp_path)) == {"kind": "folder"}
    assert probe.describe(str(tmp_path / "absent")) == {"kind": "absent"}
    assert probe.describe("/dev/null") == {"kind": "char", "major": 1, "minor": 3}


def test_opening_says_ok_or_the_name_of_the_error(tmp_path: Path) -> None:
    assert probe.try_open("/dev/null") == "ok"
    assert probe.try_open(str(tmp_path / "absent")) == "ENOENT"
    assert probe.try_open(str(tmp_path)) == "EISDIR"


def test_each_leased_device_is_looked_at() -> None:
    found = probe.look_at_devices([["/dev/null", 1, 3], ["/dev/absent", 1, 4]])
    assert found["/dev/null"] == {"kind": "char", "major": 1, "minor": 3, "open": "ok"}
    assert found["/dev/absent"]["kind"] == "absent"


@pytest.mark.parametrize(
    ("error", "expected"),
    [(PermissionError(1, "x"), ("EPERM", None)), (None, ("ok", "ok"))],
    ids=["refused", "made"],
)
def test_mknod_is_tried_in_every_folder_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None, expected: tuple[str, str | None]
) -> None:
    asked = []

    def mknod(path: str, mode: int, device: int) -> None:
        asked.append((mode, os.major(device), os.minor(device)))
        if error:
            raise error
        Path(path).touch()

    folders = (str(tmp_path), str(tmp_path / "b"))
    (tmp_path / "b").mkdir()
    monkeypatch.setattr(probe, "MKNOD_FOLDERS", folders)
    monkeypatch.setattr(os, "mknod", mknod)
    attempts = probe.try_mknod([5])
    assert [(a["folder"], a["mknod"], a["open"]) for a in attempts] == [(folder, *expected) for folder in folders]
    assert asked == [(0o020600, 195, 5)] * 2
    assert [item.name for item in tmp_path.iterdir()] == ["b"]
    assert not list((tmp_path / "b").iterdir())


def checksum(packet: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total & 0xFFFF) + (total >> 16)
    return (total + (total >> 16)) & 0xFFFF


def test_an_echo_request_has_a_checksum_that_adds_up() -> None:
    for number in range(64):
        packet = probe.echo(number, os.urandom(16))
        assert packet[:2] == b"\x08\x00"
        assert checksum(packet) == 0xFFFF


class Net:
    """A raw socket behind which some addresses answer, some of them only when asked again."""

    def __init__(self, answers: dict[str, int], forge: bool = False) -> None:
        self.answers = answers
        self.forge = forge
        self.asked: dict[str, int] = {}
        self.bound: list[bytes] = []
        self.queue: list[tuple[bytes, tuple[str, int]]] = []

    def __call__(self, *_: object) -> Net:
        return self

    def __enter__(self) -> Net:  # noqa: PYI034 - Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def setsockopt(self, _level: int, _option: int, value: bytes) -> None:
        self.bound.append(value)

    def settimeout(self, _seconds: float) -> None:
        pass

    def sendto(self, packet: bytes, address: tuple[str, int]) -> None:
        self.asked[address[0]] = self.asked.get(address[0], 0) + 1
        if self.answers.get(address[0]) == self.asked[address[0]]:
            payload = b"forged, 16 bytes" if self.forge else packet[8:]
            self.queue.append((b"\x45" + bytes(19) + b"\x00" + packet[1:8] + payload, (address[0], 0)))
        if address[0] not in self.answers:
            raise OSError(113, "No route to host")

    def recvfrom(self, _size: int) -> tuple[bytes, tuple[str, int]]:
        if not self.queue:
            raise TimeoutError
        return self.queue.pop(0)


@pytest.mark.parametrize(
    ("net", "reached"),
    [
        (Net({"10.0.3.1": 1, "10.0.3.2": 1}), ["10.0.3.1", "10.0.3.2"]),
        (Net({"10.0.3.1": 1, "10.0.3.2": 2}), ["10.0.3.1", "10.0.3.2"]),
        (Net({"10.0.3.1": 1, "10.0.3.2": 9}), ["10.0.3.1"]),
        (Net({"10.0.3.1": 1}), ["10.0.3.1"]),
        (Net({"10.0.3.1": 1, "10.0.3.2": 1}, forge=True), []),
    ],
    ids=["all", "second try", "silent", "no route", "not our echo"],
)
def test_addresses_that_answer_are_told_from_those_that_do_not(
    monkeypatch: pytest.MonkeyPatch, net: Net, reached: list[str]
) -> None:
    monkeypatch.setattr("socket.socket", net)
    found = probe.reach("eth0", ["10.0.3.1", "10.0.3.2"], rounds=2, wait_s=0.01)
    assert found["reached"] == reached
    assert sorted(found["reached"] + found["missing"]) == ["10.0.3.1", "10.0.3.2"]
    assert net.bound == [b"eth0"]


def test_an_interface_that_cannot_be_used_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("socket.socket", refuse)
    found = probe.reach_all({"eth0": ["10.0.3.1"]})
    assert found["eth0"]["reached"] == []
    assert found["eth0"]["missing"] == ["10.0.3.1"]
    assert "eth0" in found["eth0"]["problem"]


def test_a_program_is_waited_for() -> None:
    done = probe.finish(probe.start([sys.executable, "-c", "import os; print(os.environ['X'])"], {"X": "é"}, 30))
    assert (done["exit_code"], done["stdout"], done["timed_out"]) == (0, "é\n", False)


def test_a_program_that_hangs_is_ended_and_said_to_have_hung() -> None:
    done = probe.finish(probe.start([sys.executable, "-c", "import time; time.sleep(60)"], {}, 0.1))
    assert done["timed_out"]
    assert done["exit_code"] == -15
    assert done["seconds"] < 30


def test_packages_of_cuda_are_found_where_python_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia_cuda_nvcc_cu12-12.9.86.dist-info", "nvidia_ml_py-13.0.dist-info", "nvidia_cuda_nvcc_cu12"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "path", ["", "/nonexistent", str(tmp_path)])
    assert probe.find_cuda_wheels() == ["nvidia_cuda_nvcc_cu12-12.9.86"]


QUIET: dict[str, Any] = {
    "devices": [], "denied": [], "nvml": None, "cuda": False, "kernels": None, "network": {},
}  # fmt: skip


def test_a_part_that_breaks_says_so_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_minors: list[int]) -> list[Any]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(probe, "try_mknod", broken)
    monkeypatch.setattr(probe, "ask_nvml", lambda _: {"gpus": []})
    facts = probe.gather(QUIET)
    assert facts["mknod"] == {"error": "OSError: [Errno 5] Input/output error"}
    assert facts["nvml"] == {"gpus": []}
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("part", ["role", "kernels"])
def test_a_program_that_is_not_there_breaks_its_own_part_only(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(probe, "ask_nvml", lambda _: {"gpus": []})
    wanted: dict[str, dict[str, Any]] = {
        "role": {"questions": {"role": {"show": {"argv": ["scontrol"], "timeout_s": 1}}}},
        "kernels": {"kernels": {"names": ["matmul"], "options": [], "environment": {}, "timeout_s": 1}},
    }
    facts = probe.gather({**QUIET, **wanted[part]})
    assert "FileNotFoundError" in facts[part]["error"]
    assert facts["nvml"] == {"gpus": []}


def test_the_kernels_have_the_environment_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str], float]] = []
    record: Callable[..., dict[str, Any]] = lambda *given: started.append(given) or {}  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(probe, "start", record)
    environment = {"NUMBA_ENABLE_CUDASIM": "1"}
    probe.start_kernels(
        {"names": ["matmul", "anneal"], "options": ["--quick"], "environment": environment, "timeout_s": 7}
    )
    assert [environment for _, environment, _ in started] == [environment]
    assert started[0][0] == ["python3", "-m", "smoke_kernels", "matmul", "anneal", "--json", "--quick"]
