"""Packages and programs that a machine lacks, all told at once, with the command that installs them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

from gpuwork.errors import HostLacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What installs those below, if whoever starts this program knows it better
INSTALL_VARIABLE: Final = "GPUWORK_INSTALL"
# As pip writes them, by the module that is imported
KNOWN: Final = {
    "bokeh": ("bokeh>=3.1",),
    "dask": ("distributed>=2024.8",),
    "distributed": ("distributed>=2024.8",),
    "numba": ("numba-cuda[cu13]>=0.30,<0.31", "numpy<2.5"),
    "numpy": ("numpy<2.5",),
    "nvcc": tuple(f"nvidia-{name}>=13,<14" for name in ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl")),
    "pandas": ("pandas",),
}
_SHOWN: Final = 300
_MOST_LINES: Final = 20


def find_failing(modules: Iterable[str]) -> dict[str, str]:
    """Those of the modules that cannot be imported here, each with what Python says; the others are imported then."""
    failing = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001, PERF203  (a package may raise anything, and all are to be told)
            failing[module] = f"{module}: {type(error).__name__}: {error}"[:_SHOWN]
    return failing


def is_there(module: str) -> bool:
    """Whether there is such a module on `sys.path`; nothing of it is executed."""
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def require_here(modules: Sequence[str], programs: Sequence[str] = (), *, others: Sequence[str] = ()) -> None:
    """Refuse a machine where one of the modules cannot be imported, or where a program is not in PATH.

    Args:
        modules: Are imported.
        programs: Are looked for.
        others: That were looked for elsewhere, and are missing.

    Raises:
        HostLacks: With all that is missing, and the command that installs it.
    """
    failing = find_failing(modules)
    missing = [name for name in programs if shutil.which(name) is None]
    if failing or missing or others:
        told = [*failing.values(), *(f"{name}: is not installed" for name in (*missing, *others))]
        raise lacks([*failing, *others], told, programs=missing)


def lacks(modules: Iterable[str], told: Sequence[str], *, programs: Sequence[str] = ()) -> HostLacks:
    """The error about modules and programs that are missing.

    Args:
        modules: Their names, as they are imported.
        told: A line for each that is missing.
        programs: Those of them that the system's packages of the same names bring.
    """
    left = [f"and {len(told) - _MOST_LINES} more"] if len(told) > _MOST_LINES else []
    commands = [f"apt-get install {' '.join(programs)}"] if programs else []
    commands += [install] if (install := pip_command(modules)) else []
    return HostLacks(
        "this machine lacks what this needs; nothing was written",
        evidence="\n".join([*told[:_MOST_LINES], *left, f"Python: {sys.executable}"]),
        fix="; ".join(commands),
    )


def pip_command(modules: Iterable[str]) -> str:
    """What installs the packages of these modules; those that are not known are taken for packages of their name."""
    names = dict.fromkeys(module.partition(".")[0] for module in modules)
    others = [name for name in names if name not in KNOWN]
    known = dict.fromkeys(package for name in names for package in KNOWN.get(name, ()))
    given = os.environ.get(INSTALL_VARIABLE)
    if not names:
        return ""
    if given and known:
        return " ".join([given, *map(shlex.quote, others)])
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join([*known, *others])}"
