"""Gathers facts inside a node and prints them as one JSON document; it judges nothing.

The text of this file and of questions.py is sent into the node, so they import the standard library only, and pynvml
where the node has it. A part that fails says so under its own key, and the others go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.verify.questions import (
    answer,
    ask_p2p,
    list_gpus,
    questions,
    take_xids,
    text,
    throttle_reasons,
    watch_xids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GPU_MAJOR = 195
MKNOD_FOLDERS = ("/dev", "/root")
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
MOST_SAMPLES = 240
SIMULATION = "@simulation"
TAIL = 2000

Facts = dict[str, Any]


def gather(parameters: Facts) -> Facts:
    """Every part that the parameters ask for."""
    facts: Facts = {"seconds": {}}
    started = time.monotonic()
    asked = start_questions(parameters.get("questions") or {}, parameters.get("nvml"))
    kernels = start_kernels(parameters["kernels"]) if parameters.get("kernels") else None
    sampler = Sampler(**parameters["sampling"]) if parameters.get("sampling") else None
    parts: dict[str, Callable[[], Any]] = {
        "devices": lambda: look_at_devices(parameters["devices"]),
        "strangers": lambda: look_at_strangers(parameters["devices"]),
        "mknod": lambda: try_mknod(parameters["denied"]),
        "driver": lambda: look_at_driver(parameters.get("library_folders", LIBRARY_FOLDERS)),
        "nvml": lambda: ask_nvml(parameters.get("nvml")),
        "sampling": lambda: sampler.start() if sampler else None,  # once NVML is there, while the kernels run
        "wheels": find_cuda_wheels,
        "cuda": lambda: init_cuda() if parameters["cuda"] else None,
        "network": lambda: reach_all(parameters["network"]),
        **{fact: partial(finish_questions, started) for fact, started in asked.items()},
        "kernels": lambda: finish(kernels) if kernels else None,
        "samples": lambda: sampler.finish() if sampler else None,
    }
    for name, part in parts.items():
        begun = time.monotonic()
        try:
            facts[name] = part()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in one part is a fact about that part
            facts[name] = {"error": f"{type(error).__name__}: {error}"}
        facts["seconds"][name] = round(time.monotonic() - begun, 3)
    facts["seconds"]["total"] = round(time.monotonic() - started, 3)
    return facts


def look_at_devices(devices: list[list[Any]]) -> Facts:
    """What stands at the path of each leased device, and what open() says."""
    return {path: {**describe(path), "open": try_open(path)} for path, _major, _minor in devices}


def look_at_strangers(devices: list[list[Any]]) -> list[Facts]:
    """GPU devices below /dev, by path or by number, that the lease does not have."""
    leased = {path for path, _major, _minor in devices}
    found = []
    for path in sorted(str(file) for folder in ("/dev", "/dev/nvidia-caps") for file in Path(folder).glob("*")):
        facts = describe(path)
        is_gpu = facts.get("major") == GPU_MAJOR or re.search(r"/nvidia[^/]*$", path)
        if facts["kind"] == "char" and is_gpu and path not in leased:
            found.append({"path": path, **facts, "open": try_open(path)})
    return found


def describe(path: str) -> Facts:
    """Kind of a file, and its numbers if it is a device."""
    try:
        status = Path(path).stat()
    except OSError as error:
        return {"kind": "absent" if error.errno == errno.ENOENT else code(error)}
    kind = "char" if stat.S_ISCHR(status.st_mode) else "folder" if stat.S_ISDIR(status.st_mode) else "file"
    if kind != "char":
        return {"kind": kind}
    return {"kind": kind, "major": os.major(status.st_rdev), "minor": os.minor(status.st_rdev)}


def try_open(path: str) -> str:
    """Answer `ok`, or the name of the error: EPERM is denied, ENXIO is allowed with no driver behind it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return code(error)
    return "ok"


def try_mknod(minors: list[int]) -> list[Facts]:
    """What a thief gets who makes a device of a GPU that is not leased."""
    tried = []
    for minor in minors:
        for folder in MKNOD_FOLDERS:
            path = f"{folder}/.gpuprov-probe-{os.getpid()}"
            attempt: Facts = {"minor": minor, "folder": folder, "mknod": "ok", "open": None}
            try:
                os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(GPU_MAJOR, minor))
            except OSError as error:
                attempt["mknod"] = code(error)
            else:
                attempt["open"] = try_open(path)
                Path(path).unlink()
            tried.append(attempt)
    return tried


def code(error: OSError) -> str:
    """Name of an error: `EPERM`."""
    return errno.errorcode.get(error.errno or 0, str(error))


def look_at_driver(folders: Sequence[str]) -> Facts:
    """Version of the kernel module as the node sees it, and of the user-space libraries it was given."""
    version = None
    with contextlib.suppress(OSError):
        text_of_version = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        match = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text_of_version, re.MULTILINE)
        version = match[1] if match else None
    libraries: dict[str, list[str]] = {}
    for name in ("libcuda.so", "libnvidia-ml.so"):
        found = (file.name for folder in folders for file in Path(folder).glob(f"{name}.*.*"))
        suffixes = {file.rpartition(f"{name}.")[2] for file in found}
        libraries[name] = sorted(suffixes)
    return {"version": version, "libraries": libraries}


def ask_nvml(simulation: Facts | None) -> Facts:
    """UUIDs that NVML lists; with a simulation, pynvml asks that instead of libnvidia-ml."""
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        return {"missing": f"pynvml: {error}"}
    if simulation is not None:
        space: Facts = {"__name__": "gpuprov_simulated_nvml"}
        exec(compile(simulation["source"], "simulate.py", "exec", dont_inherit=True), space)  # noqa: S102 - our own text
        pynvml.nvmlLib = space["SimulatedNvml"](simulation["document"])
    call = "nvmlInit"
    try:
        pynvml.nvmlInit()
        call = "nvmlDeviceGetCount"
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return {"failed": {"call": call, "code": int(error.value), "text": str(error)}}
    handles, gpus, lost = list_gpus(pynvml, count)
    for gpu, handle in zip(gpus, handles, strict=True):
        gpu["readings"] = {name: answer(pynvml, question) for name, question in questions(pynvml, handle).items()}
    versions = {
        "cuda": answer(pynvml, pynvml.nvmlSystemGetCudaDriverVersion),
        "driver": answer(pynvml, lambda: text(pynvml.nvmlSystemGetDriverVersion())),
    }
    return {"gpus": gpus, "lost": lost, "p2p": ask_p2p(pynvml, handles), "versions": versions}


class Sampler:
    """Temperature, clocks, power and throttle reasons of every GPU that NVML shows, while the kernels run.

    At most MOST_SAMPLES for each: when they are reached every second one goes and the interval doubles, so that they
    always cover the whole run.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._rows: dict[str, list[Facts]] = {}
        self._seen: dict[str, Facts] = {}
        self._xids: Facts = {}
        self._problem = ""

    def start(self) -> None:
        """Begin; what goes wrong is told by `finish`."""
        self._thread.start()

    def finish(self) -> Facts:
        """End, and hand over the samples by UUID; `problem` says why there are none, or no more.

        `seen` sums up all moments, those that were dropped as well; `xids` is what the driver reported meanwhile.
        """
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)
        return {"gpus": dict(self._rows), "seen": self._seen, "xids": self._xids, "problem": self._problem}

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            import pynvml

            pynvml.nvmlInit()
            handles, listed, _ = list_gpus(pynvml, pynvml.nvmlDeviceGetCount())
            gpus = {gpu["uuid"]: handle for gpu, handle in zip(listed, handles, strict=True)}
            events = answer(pynvml, lambda: watch_xids(pynvml, handles))
            found: list[Facts] = []
            self._xids = {"value": found} if "value" in events else events
            while True:
                for uuid, handle in tuple(gpus.items()):
                    try:
                        row = {"at_s": round(time.monotonic() - begun, 3), **sample(pynvml, handle)}
                    except pynvml.NVMLError as error:  # it went away while it worked: that is no news of the others
                        self._problem = f"{uuid}: {type(error).__name__}: {error}"
                        del gpus[uuid]
                        continue
                    self._rows.setdefault(uuid, []).append(row)
                    self._seen[uuid] = sum_up(self._seen.get(uuid), row)
                if "value" in events:
                    found += take_xids(pynvml, events["value"])
                if any(len(rows) >= MOST_SAMPLES for rows in self._rows.values()):
                    self._interval_s *= 2
                    for rows in self._rows.values():
                        del rows[1::2]
                if self._ended.wait(self._interval_s):
                    return
        except Exception as error:  # noqa: BLE001 - a GPU that goes away while it works is a fact too
            self._problem = f"{type(error).__name__}: {error}"


def sample(pynvml: Any, handle: Any) -> Facts:  # noqa: ANN401 - a module and a handle without types
    """One moment of a GPU; None if it is not reported. Raises NVMLError when the GPU is gone."""
    questions: dict[str, Callable[[], float]] = {
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "throttle": lambda: throttle_reasons(pynvml, handle),
        "pcie_generation": lambda: pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "pcie_replay": lambda: pynvml.nvmlDeviceGetPcieReplayCounter(handle),
    }
    return {name: answer_or_none(pynvml, question) for name, question in questions.items()}


def sum_up(before: Facts | None, row: Facts) -> Facts:
    """What was seen of a GPU so far, and now; None where it never told."""
    before = before or {"samples": 0, "throttle": None, "pcie_replay_first": row["pcie_replay"]}
    throttle = [bits for bits in (before["throttle"], row["throttle"]) if bits is not None]
    after = {
        "samples": before["samples"] + 1,
        "throttle": throttle[0] | throttle[-1] if throttle else None,
        "pcie_replay_first": before["pcie_replay_first"],
        "pcie_replay_last": row["pcie_replay"],
    }
    for name in ("temperature_c", "pcie_generation"):
        after[name] = max((value for value in (before.get(name), row[name]) if value is not None), default=None)
    return after


def answer_or_none(pynvml: Any, question: Callable[[], float]) -> float | None:  # noqa: ANN401 - as above
    """What NVML answers; None where this GPU or library cannot tell."""
    try:
        return question()
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
            raise
        return None


def find_cuda_wheels() -> list[str]:
    """NVIDIA's Python packages of CUDA, such as `nvidia_cuda_nvcc_cu12-12.9.86`, by their folders of metadata."""
    folders = [Path(folder) for folder in sys.path if folder and Path(folder).is_dir()]
    found = {path.name for folder in folders for path in folder.glob("nvidia_cuda_*.dist-info")}
    return sorted(name.removesuffix(".dist-info") for name in found)


def init_cuda() -> Facts:
    """What cuInit answers; 999 is the mark of a missing or stale nvidia-uvm."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"missing": str(error)}
    return {"code": int(library.cuInit(0))}


def reach_all(networks: dict[str, list[str]]) -> Facts:
    """Which addresses answer, by interface."""
    found: Facts = {}
    for interface, addresses in networks.items():
        found[interface] = {
            "reached": [],
            "missing": addresses,
            "problem": f"{interface} does not exist or is not usable",
        }
        with contextlib.suppress(OSError):
            found[interface] = reach(interface, addresses)
    return found


def reach(interface: str, addresses: list[str], *, rounds: int = 4, wait_s: float = 0.4) -> Facts:
    """Which addresses answer an ICMP echo that leaves by this interface; echo replies are never rate limited."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        token = os.urandom(16)
        missing = set(addresses)
        for number in range(rounds):
            for address in sorted(missing):
                with contextlib.suppress(OSError):
                    channel.sendto(echo(number, token), (address, 0))
            deadline = time.monotonic() + wait_s
            while missing and (left := deadline - time.monotonic()) > 0:
                channel.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    packet, (sender, _) = channel.recvfrom(2048)
                    header = (packet[0] & 15) * 4
                    if packet[header] == 0 and packet[header + 8 :] == token:
                        missing.discard(sender)
            if not missing:
                break
    return {"reached": sorted(set(addresses) - missing), "missing": sorted(missing)}


def echo(number: int, token: bytes) -> bytes:
    """An ICMP echo request with its checksum."""
    body = struct.pack("!HH", os.getpid() & 0xFFFF, number) + token
    words = struct.unpack(f"!{(len(body) + 4) // 2}H", struct.pack("!BBH", 8, 0, 0) + body)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!BBH", 8, 0, ~(total + (total >> 16)) & 0xFFFF) + body


def start(argv: list[str], environment: dict[str, str], timeout_s: float) -> Facts:
    """Start a program without waiting for it; that it cannot be started is told by `finish`."""
    begun = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - argv is ours
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return {"failed": error}
    return {"process": process, "begun": begun, "timeout_s": timeout_s}


def finish(started: Facts) -> Facts:
    """Wait for a started program; after its time it is asked to end, then killed. Raises OSError if it never began."""
    if "failed" in started:
        raise started["failed"]
    process = started["process"]
    timed_out = False
    try:
        out, err = process.communicate(timeout=max(0.1, started["begun"] + started["timeout_s"] - time.monotonic()))
    except subprocess.TimeoutExpired:
        timed_out = True
        process.terminate()
        try:
            out, err = process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
    seconds = round(time.monotonic() - started["begun"], 3)
    return {
        "exit_code": process.returncode,
        "stdout": out,
        "stderr": err[-TAIL:],
        "timed_out": timed_out,
        "seconds": seconds,
    }


def start_kernels(wanted: Facts) -> Facts:
    """Start the smoke kernels, all in one process."""
    argv = ["python3", "-m", "smoke_kernels", *wanted["names"], "--json", *wanted["options"]]
    return start(argv, wanted["environment"], wanted["timeout_s"])


def start_questions(questions: Facts, simulation: Facts | None) -> Facts:
    """Start the commands of a role, by fact and name; an argument may stand for the simulation."""
    answered = json.dumps(simulation)
    return {
        fact: {
            name: start([answered if part == SIMULATION else part for part in one["argv"]], {}, one["timeout_s"])
            for name, one in commands.items()
        }
        for fact, commands in questions.items()
    }


def finish_questions(started: Facts) -> Facts:
    """Every answer, by name."""
    return {name: finish(one) for name, one in started.items()}


def main() -> None:
    """Gather what the argument asks for."""
    sys.stdout.write(json.dumps(gather(json.loads(sys.argv[1]))) + "\n")
