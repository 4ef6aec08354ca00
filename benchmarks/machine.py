"""One line about the machine that measured something."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

GIB = 1024**3


def describe(*parts: str) -> str:
    """Its CPUs, memory and kernel, then `parts`, such as an engine and its version, then Python."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return ", ".join(
        (
            f"{os.cpu_count()} CPUs ({model[1] if model else platform.machine()})",
            f"{memory_gib:.0f} GiB memory",
            f"Linux {platform.release()}",
            *parts,
            f"Python {platform.python_version()}",
        )
    )
