"""What a proof is made of: each part is a program of its own with a limit, so that one that hangs costs only itself."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.core.requirements import load_cuda, older
from gpuprov.gpu.driver_files import parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
WATCH_S = 60.0
# Each kernel on each GPU, and all of them together: they work one after the other.
_BUSY_S, _ALL_BUSY_S = 10.0, 90.0
_KERNELS = ("matmul", "anneal", "membw")
# To make a context on a further GPU, to load the kernels there and to prove what they gave
_FURTHER_GPU_S = 10.0
_COMPILE_S = 120.0
# What the other parts, about 215 s on an H100 with a node, leave of the budget
_TESTS_S = 245.0
# NVML of a driver that hangs is given up after 45 s, and the processes that hang in it are watched for 30 s.
_HUNG_S = 100.0
_CONTAINER_S, _NODE_S = 120.0, 240.0
# For a part to end what it has started itself
_GRACE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One program of the proof.

    Attributes:
        argv: What is run; it prints one JSON document, in which `passed` says whether all is well.
        limit_s: It is ended after so many seconds.
        least_s: It is not started with less time left than this.
        lacks: Why it cannot run here; empty where it can.
    """

    name: str
    title: str
    argv: tuple[str, ...]
    limit_s: float
    least_s: float = 5.0
    lacks: str = ""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the machine has for the parts.

    Attributes:
        has: Whether Python finds a module.
        finds: Whether there is a program of that name.
        too_new: Why the driver does not run the CUDA of Python's packages; empty where it does.
        gpus: How many GPUs CUDA shows, at most.
        simulated: No GPU is looked for: kernels run on the simulator, devices have no driver behind them.
    """

    python: str = sys.executable
    is_root: bool = False
    gpus: int = 1
    too_new: str = ""
    simulated: bool = False
    has: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None
    finds: Callable[[str], bool] = lambda name: shutil.which(name) is not None


def this_place(*, simulated: bool) -> Place:
    """Return what this machine has."""
    too_new = "" if simulated else explain_major(_version_of_packages(), _version_of_driver(Path("/")))
    return Place(is_root=os.geteuid() == 0, gpus=count_gpus(Path("/")), too_new=too_new, simulated=simulated)


def explain_major(packages: str, driver: str) -> str:
    """Return why a driver does not run the CUDA of Python's packages; empty where it does, or one is not known."""
    major = packages.partition(".")[0]
    needed = {str(number): cuda.driver for number, cuda in load_cuda().items()}.get(major, "")
    if not needed or not driver or not older(driver, needed):
        return ""
    return f"Python's packages are for CUDA {major}, which needs driver {needed}; this is {driver} (docs/gpu-proof.md)"


def _version_of_packages() -> str:
    try:
        return importlib.metadata.version("cuda-bindings")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _version_of_driver(root: Path) -> str:
    try:
        return parse_version((root / "proc/driver/nvidia/version").read_text(encoding="utf-8"))
    except (OSError, HostNotReady):
        return ""


def count_gpus(root: Path) -> int:
    """How many GPUs CUDA can show: in a container, the driver may list GPUs that have no device node there."""
    listed = len(list(root.glob("proc/driver/nvidia/gpus/*")))
    nodes = len(list(root.glob("dev/nvidia[0-9]*")))
    return min((count for count in (listed, nodes) if count), default=1)


def busy_seconds(gpus: int) -> float:
    """How long each kernel is kept busy on each of so many GPUs."""
    return min(_BUSY_S, round(_ALL_BUSY_S / (len(_KERNELS) * gpus), 2))


def _lacks_engine(place: Place) -> str:
    if place.simulated:
        return "tests/e2e shows nodes with simulated GPUs"
    if not place.finds("lxc") and not place.finds("incus") and not place.finds("docker"):
        return "no engine is here: neither lxc nor incus nor docker is found"
    packages = [name for name in ("click", "yaml", "jinja2", "ansible_runner", "msgspec") if not place.has(name)]
    return f"Python finds no {', '.join(packages)}, which gpuprov's commands need" if packages else ""


def plan_parts(place: Place, *, watch_s: float = WATCH_S) -> tuple[Part, ...]:
    """Return every part, those first that nothing else can show.

    A part that is ended ends none of the programs that it has started: those that start any have the time for it.
    """
    simulate = ("--simulate",) if place.simulated else ()
    small = ("--quick",) if place.simulated else ()
    busy_s = busy_seconds(place.gpus)
    busy = ("--quick", "--repeats", "2") if place.simulated else ("--seconds", f"{busy_s:g}")
    further_s = _FURTHER_GPU_S * (place.gpus - 1)
    kernels_s = len(_KERNELS) * place.gpus * busy_s + further_s
    tests_s = _TESTS_S + further_s

    def own(name: str, *more: str) -> tuple[str, ...]:
        return (place.python, "-m", "benchmarks.gpu_proof.part", name, *more, *simulate)

    def kernels(*arguments: str) -> tuple[str, ...]:
        return (place.python, "-m", "smoke_kernels", *arguments, "--json", *simulate)

    numba = place.too_new if place.has("numba") else "Python finds no numba"
    shapes = "" if place.has("msgspec") else "Python finds no msgspec"
    real = "the simulator has no speed, no compiler and no driver" if place.simulated else ""
    root = "" if place.is_root else "namespaces and device rules need root"
    programs = "" if place.finds("unshare") else "there is no program unshare"
    pytest = "" if place.has("pytest") else "Python finds no pytest"
    return (
        Part(name="record", title="Record of the machine", argv=own("record"), limit_s=60, lacks=shapes),
        Part(name="host", title="The host's checks, NVML's included", argv=own("host"), limit_s=_HUNG_S, lacks=shapes),
        Part(
            name="kernels",
            title="Smoke kernels, level full",
            argv=kernels(*_KERNELS, "--all-devices", *busy),
            limit_s=_COMPILE_S + kernels_s,
            least_s=kernels_s,
            lacks=numba,
        ),
        Part(
            name="loaded", title="Kernels as the driver loads them", argv=own("loaded"), limit_s=60, lacks=real or numba
        ),
        Part(
            name="cublas",
            title="Rates beside cuBLAS, and of each variant of anneal",
            argv=(place.python, "-m", "benchmarks.kernels", "--json", "--repeats", "10"),
            limit_s=120,
            lacks=real or numba,
        ),
        Part(
            name="independent",
            title="anneal with independent random numbers",
            argv=kernels("anneal", "--independent", *small),
            limit_s=60,
            lacks=numba,
        ),
        Part(
            name="one-replica",
            title="anneal of one replica",
            argv=kernels("anneal", "--one-replica", *small),
            limit_s=60,
            lacks=numba,
        ),
        Part(
            name="container",
            title="A container of namespaces and device rules, verified as a node",
            argv=own("container"),
            limit_s=_CONTAINER_S,
            least_s=_CONTAINER_S,
            lacks=root or programs or numba or shapes,
        ),
        Part(
            name="node",
            title="A real node on an engine",
            argv=own("node"),
            limit_s=_NODE_S,
            least_s=_NODE_S,
            lacks=_lacks_engine(place),
        ),
        Part(name="doctor", title="gpuprov doctor", argv=own("doctor"), limit_s=60, lacks=shapes),
        Part(
            name="watch",
            title="A minute without a fault",
            argv=own("watch", f"{watch_s:g}"),
            limit_s=watch_s + _HUNG_S,
            least_s=watch_s + _GRACE_S,
            lacks=shapes,
        ),
        Part(
            name="tests",
            title="tests/gpu",
            argv=own("tests", f"{tests_s - _GRACE_S:g}"),
            limit_s=tests_s,
            least_s=tests_s,
            lacks=real or pytest or numba,
        ),
    )
