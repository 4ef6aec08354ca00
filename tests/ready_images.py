"""`python -m tests.ready_images`: the node images that tests of real engines begin with, before those tests begin.

An image is taken from its engine, else from a folder of files that may be kept where the machine is not, else it is
built. Its file there is named by the fingerprint of its recipe, and is used for a week, as
bases are; after that it would lack the security updates of a week. Only root can write in that folder: whoever can,
decides what runs in the nodes of the tests.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import find_built
from gpuprov.core.errors import HostNotReady
from gpuprov.core.fingerprint import short
from gpuprov.machine.local import LocalHost
from gpuprov.provision.kept_bases import FRESH_S
from gpuprov.roles.registry import role_recipe
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDER = Path("/var/cache/gpuprov-tests")
# Those that most tests wait for come first.
WANTED = (
    ("lxd", "slurm"),
    ("docker", "slurm"),
    ("lxd", "worker"),
    ("lxd", "plain"),
    ("incus", "slurm"),  # the file of LXD's
    ("incus", "plain"),
    ("docker", "plain"),
    ("docker", "worker"),
)
CLIENTS = {"lxd": "lxc", "incus": "incus"}
GPUPROV = (str(Path(sys.executable).with_name("gpuprov")), "--quiet")
SIMULATED = ("--gpu-mode", "simulated")
BUDGET_S = 1200


def file_of(folder: Path, engine: str, fingerprint: str) -> Path:
    """The file of an image: LXD and Incus read each other's. Pure."""
    return folder / f"{'docker' if engine == 'docker' else 'lxc'}-{short(fingerprint)}.tar"


def save(engine: str, name: str, file: Path) -> list[str]:
    """The command that writes an image to a file. Pure."""
    if engine == "docker":
        return ["docker", "save", "--output", str(file), name.replace("gpuprov-image-", "gpuprov-image:")]
    return [CLIENTS[engine], "export", name, str(file), "--instance-only", "--compression", "none", "--quiet"]


def load(engine: str, file: Path) -> list[str]:
    """The command that gives an engine the image of a file. Pure."""
    if engine == "docker":
        return ["docker", "load", "--quiet", "--input", str(file)]
    return [CLIENTS[engine], "import", str(file), "--quiet"]


def forget_old(folder: Path, *, now_s: float) -> None:
    """Remove what is not to be used any more, and what was not written to its end."""
    for file in folder.glob("*.tar*"):
        if file.suffix != ".tar" or now_s - file.stat().st_mtime >= FRESH_S:
            file.unlink()


def make_ready(image: Image, file: Path, run: Callable[[Sequence[str]], bool]) -> str:
    """Give the engine the image, and the folder its file: where it came from, in one word."""
    source = "engine"
    if image.name() is None and file.exists():
        source = "file"
        if not (run(load(image.engine, file)) and image.name()):
            file.unlink()
    if image.name() is None:
        source = "built"
        assert run([*GPUPROV, "image", "build", "--engine", image.engine, "--role", image.role, *SIMULATED])
    name = image.name()
    assert name, f"{image.engine} has no image for {image.role}"
    unfinished = file.with_suffix(".tar-unfinished")
    if not file.exists() and run(save(image.engine, name, unfinished)):
        unfinished.rename(file)
    return source


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that tests begin with; `name` is what the engine calls it, None where it does not have it."""

    engine: str
    role: str
    name: Callable[[], str | None]


def run(argv: Sequence[str]) -> bool:
    """Whether a command succeeds; what it says is shown."""
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, timeout=BUDGET_S).returncode == 0


def main() -> None:
    """Make all of them ready, on the engines that are there."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    forget_old(FOLDER, now_s=time.time())
    host = LocalHost()
    gpus = host.gpus("simulated")
    for engine, role in WANTED:
        try:
            driver = host.open(engine)
        except HostNotReady as lack:  # the tests tell it, or are skipped
            tell(f"no {engine} here: {lack.what}")
            continue
        recipe = role_recipe(driver, ClusterSpec(nodes=NodesSpec(role=role)), role, gpus)
        find = partial(find_built, driver, recipe)
        image = Image(engine=engine, role=role, name=lambda: found.name if (found := find()) else None)  # noqa: B023
        began_s = time.monotonic()
        source = make_ready(image, file_of(FOLDER, engine, recipe.fingerprint), run)
        tell(f"{engine} {role}: {source} ({time.monotonic() - began_s:.0f} s)")


def tell(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
