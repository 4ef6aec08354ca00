"""On what a run runs: the node, its GPUs, the image it was made from."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MOST_GPUS
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE_VARIABLE: Final = "GPUWORK_IMAGE"
SIMULATOR_VARIABLE: Final = "NUMBA_ENABLE_CUDASIM"
IMAGE_FILE: Final = Path("/etc/gpuwork/image")  # whoever builds an image writes it
_LINE: Final = re.compile(r"GPU \d+: (?P<name>.{1,200}) \(UUID: (?P<uuid>GPU-[0-9a-fA-F-]{4,64})\)")
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F/-]{4,80}")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{8,64}")
_LIMIT_S: Final = 10
_LINE_BYTES: Final = 100


@dataclass(frozen=True, kw_only=True)
class Where:
    """What a run's record says about where it ran.

    Attributes:
        node: The machine's name.
        gpus: UUIDs of the GPUs that the run can see.
        simulated: Whether these GPUs, or the kernels on them, are simulated.
        image: The fingerprint of the node's image, as the node has it, or whoever started the run told it.
    """

    node: str
    gpus: tuple[str, ...]
    simulated: bool
    image: str | None


def find_where(environment: Mapping[str, str] = os.environ) -> Where:
    """This machine, as a run with this environment sees it: `CUDA_VISIBLE_DEVICES` limits the GPUs."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    gpus, simulated = parse_list(_list_gpus(), visible)
    return Where(
        node=platform.node(),
        gpus=gpus,
        simulated=simulated or environment.get(SIMULATOR_VARIABLE, "0") not in ("", "0"),
        image=environment.get(IMAGE_VARIABLE) or read_image(IMAGE_FILE),
    )


def read_image(file: Path) -> str | None:
    """The fingerprint in a file of the image; None if there is none, as on a machine that was made in another way."""
    said = (read_limited(file, limit=_LINE_BYTES) or b"").decode(errors="replace").strip()
    return said if _FINGERPRINT.fullmatch(said) else None


def parse_list(listed: str, visible: str | None) -> tuple[tuple[str, ...], bool]:
    """UUIDs of the visible ones among what `nvidia-smi -L` lists, and whether any of them is simulated."""
    found = [(match["uuid"], match["name"]) for line in listed.splitlines() if (match := _LINE.fullmatch(line))]
    found = found[:MOST_GPUS]
    names = dict(found)
    if visible is None:
        uuids = tuple(names)
    else:
        wanted = [word.strip() for word in visible.split(",")]
        indices = {str(index): uuid for index, (uuid, _) in enumerate(found)}
        uuids = tuple(indices.get(word, word) for word in wanted if word in indices or _UUID.fullmatch(word))
    return uuids, any("SIMULATED" in names.get(uuid, "") for uuid in uuids)


def _list_gpus() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"],  # noqa: S607  (a node's own)
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")  # with one GPU lost it fails, and still lists the others
