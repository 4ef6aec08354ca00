"""The packages that `--local` needs beside those of gpuprov: an extra of it for each kind of CUDA's packages."""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.gpu.wheels import image_wheels
from gpuprov.provision.recipe import REQUIREMENTS, TOOLKIT

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.gpu.wheels import CudaWheels
    from gpuprov.machine.base import Host

EXTRAS: Final[dict[CudaWheels, str]] = {"none": "local", "cu12": "local-cu12", "cu13": "local-cu13"}
CHARTS: Final = "charts"
_VARIABLE: Final = "GPUWORK_INSTALL"


def extra_requirements(wheels: CudaWheels) -> tuple[str, ...]:
    """What an extra has: what nodes have, and the package that grids of others are written with."""
    return (*REQUIREMENTS[wheels], *TOOLKIT[wheels], "pandas")


def local_environment(gpus: HostGpus | None) -> dict[str, str]:
    """What tells a program of gpuwork how to install what this machine lacks."""
    return {_VARIABLE: install_command(gpus)}


def install_command(gpus: HostGpus | None, *, python: str = sys.executable) -> str:
    """What installs all that `--local` needs into the environment of gpuprov.

    Args:
        gpus: Of this machine; None where they cannot be found.
        python: The interpreter.
    """
    return _install(EXTRAS["none" if gpus is None else image_wheels(gpus)], python)


def lacks_charts() -> str:
    """What this machine lacks to draw charts, and what to type; empty where it has all."""
    return "" if find_spec("matplotlib") else f"matplotlib is not installed; next: {_install(CHARTS, sys.executable)}"


def require_charts(option: str) -> None:
    """Refuse an option that is for a chart where none can be drawn, before anything is run.

    Raises:
        HostNotReady: With the command that installs what is missing.
    """
    if lacks_charts():
        raise HostNotReady(
            f"{option} needs matplotlib; nothing was run",
            evidence="this Python has no package matplotlib",
            fix=_install(CHARTS, sys.executable),
        )


def _install(extra: str, python: str) -> str:
    can_write = os.access(sysconfig.get_path("purelib"), os.W_OK)
    command = f"{shlex.quote(python)} -m pip install 'gpuprov[{extra}]'"
    return command if can_write else f"sudo {command}"


def find_gpus(host: Host) -> HostGpus | None:
    """The GPUs of this machine, for a program that finds its GPUs itself; None where they cannot be found."""
    try:
        return host.gpus("auto")
    except GpuprovError:
        return None
