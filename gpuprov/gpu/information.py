"""What NVIDIA's driver shows of each GPU in /proc, read in a child: where the driver hangs, the reader does as well."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.execution import run
from gpuprov.gpu.nvml import ANSWER_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILES: Final = "proc/driver/nvidia/gpus/*/information"
# What cannot be opened is of a GPU that has gone meanwhile.
_READ: Final = """
import contextlib, json, sys
texts = {}
for path in sys.argv[1:]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        texts[path] = file.read()
print(json.dumps(texts))
"""
_SAID_MOST: Final = 300


@dataclass(frozen=True, kw_only=True)
class Information:
    """The files `information` of the driver's GPUs.

    Attributes:
        texts: By path.
        silent: Why they could not be read; empty where they could, or there are none.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    silent: str = ""


def read_information(root: Path) -> Information:
    """Read all of them within the time that NVML has; without GPUs no child is started."""
    paths = sorted(map(str, root.glob(_FILES)))
    if not paths:
        return Information()
    try:
        answer = run([sys.executable, "-I", "-S", "-c", _READ, *paths], timeout_s=ANSWER_S, check=False)
    except TimedOut:
        return Information(silent=f"no response within {ANSWER_S:g} s")
    except GpuprovError as error:
        return Information(silent=error.evidence)
    try:
        return Information(texts=json.loads(answer.stdout))
    except ValueError:
        said = answer.stderr.strip()[-_SAID_MOST:]
        return Information(silent=f"the reader ended with status {answer.exit_code}: {said or 'no output'}")
