"""Times the way to the first four nodes against its floor: the bare steps, by plain commands, in the same run.

Usage, as root, on Debian with LXD or without any engine: python -m benchmarks.first_run

Prints a table in Markdown; docs/benchmarks.md holds one. Nothing is taken from a cache: gpuprov's image of these nodes
is removed first and is there again afterwards, and so are its imported bases. Where LXD is missing, `gpuprov host
prepare` installs it and is timed as well. Makes and removes a cluster `gptfirst` (nodes f000 to f003, bridges gptfn0
and gptfn1, 10.79.11.0/24 and 10.79.13.0/24), an LXD image and four containers of that name.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from gpuprov.cluster.images import node_recipe
from gpuprov.drivers.base import LABEL_FINGERPRINT
from gpuprov.gpu.observe import observe
from gpuprov.provision.wheels import render_download
from gpuprov.roles.registry import role_of
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.provision.recipe import Recipe

NAME = "gptfirst"
NODES = 4
NAMES = tuple(f"{NAME}-{number}" for number in range(NODES))
SPEC = f"""\
version: gpuprov/v1
name: {NAME}
nodes: {{count: {NODES}, prefix: f}}
gpus: {{mode: simulated}}
network: {{bridge: gptfn0, subnet: 10.79.11.0/24, private_bridge: gptfn1, private_subnet: 10.79.13.0/24}}
"""
ROOT = Path(__file__).resolve().parents[1]
GPUPROV = str(Path(sys.executable).parent / "gpuprov")
CACHE = "/var/cache/gpuprov"
PHASE = re.compile(r"^(\S.*) done \(([\d.]+) s\)$", re.MULTILINE)
APT = ("apt-get", "--quiet=2", "--option", "Dpkg::Use-Pty=0")
PLAIN_BASE = ("mmdebstrap", "--quiet", "--variant=apt", '--aptopt=Apt::Install-Recommends "false"')
GOAL = 1.3


@dataclass(frozen=True)
class Bench:
    """A folder on disk for what is made, what is installed, and seconds by what was timed, of each side."""

    folder: Path
    recipe: Recipe
    engine_packages: list[str]
    floor: dict[str, float] = field(default_factory=dict)
    gpuprov: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, side: dict[str, float], what: str) -> Iterator[None]:
        """Time a block."""
        load, started = os.getloadavg()[0], time.monotonic()
        yield
        side[what] = time.monotonic() - started
        sys.stderr.write(f"{what}: {side[what]:.1f} s  (load {load:.1f} before)\n")

    def measure_floor(self) -> None:
        """The bare steps, one after the other."""
        root, base = self.folder / "root", self.folder / "base.tar"
        run(*PLAIN_BASE, self.recipe.base, str(root))
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        with self.time(self.floor, "packages of the engine: apt-get install"):
            run("chroot", str(root), *APT, "update")
            run("chroot", str(root), *APT, "install", "--yes", "--no-install-recommends", *self.engine_packages)
        shutil.rmtree(root)
        with self.time(self.floor, "base: mmdebstrap with all packages"):
            run(*PLAIN_BASE, f"--include={','.join(self.recipe.rootfs.packages)}", self.recipe.base, str(base))
        with self.time(self.floor, "wheels: pip download"):
            python = SUITES[self.recipe.base].python
            target = self.folder / "wheels"
            run(*render_download(self.recipe.requirements, python=python, target=target), "--no-cache-dir")
        with self.time(self.floor, "import: lxc image import"):
            run("lxc", "image", "import", str(self.metadata()), str(base), "--alias", NAME)
        with self.time(self.floor, "four nodes: lxc launch"), ThreadPoolExecutor(NODES) as pool:
            list(pool.map(lambda name: run("lxc", "launch", "--storage", "gpuprov", NAME, name), NAMES))

    def metadata(self) -> Path:
        """What LXD wants to know of an image."""
        text = json.dumps({"architecture": os.uname().machine, "creation_date": int(time.time())}).encode()
        path = self.folder / "metadata.tar"
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("metadata.yaml")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        return path

    def measure_gpuprov(self) -> None:
        """From what the machine has to four verified nodes, with nothing in a cache."""
        cache, spec = self.folder / "cache", self.folder / "spec.yaml"
        cache.mkdir()
        spec.write_text(SPEC)
        here: tuple[str, ...] = (GPUPROV,)
        if shutil.which("lxd") is None:
            if Path(CACHE).exists():
                raise SystemExit(f"LXD is not installed, but there is a cache; to begin with nothing: rm -r {CACHE}")
            with self.time(self.gpuprov, "gpuprov host prepare"):
                self.hear(*here, "host", "prepare", "--engine", "lxd")
        else:
            forget_images(self.recipe)
            empty = f'mkdir -p {CACHE} && mount --bind {cache} {CACHE} && exec "$@"'  # for this command alone
            here = ("unshare", "--mount", "sh", "-c", empty, "sh", GPUPROV)
        with self.time(self.gpuprov, f"gpuprov cluster up -n {NODES}, with verify"):
            self.hear(*here, "cluster", "up", "-f", str(spec))

    def hear(self, *argv: str) -> None:
        """Run gpuprov, and keep how long its phases took."""
        said = run(*argv, PIP_CACHE_DIR=str(self.folder / "pip"))
        self.phases.update((name, float(seconds)) for name, seconds in PHASE.findall(said))

    def render(self) -> str:
        """The table."""
        prepared = len(self.gpuprov) > 1
        floor = {what: taken for what, taken in self.floor.items() if prepared or not what.startswith("packages of")}
        rows = ["| What | Seconds |", "|---|---|"]
        rows += [f"| floor: {what} | {taken:.1f} |" for what, taken in floor.items()]
        rows += [f"| **floor** | **{sum(floor.values()):.1f}** |"]
        rows += [f"| {what} | {taken:.1f} |" for what, taken in self.gpuprov.items()]
        rows += [f"| of it: {name} | {taken:.1f} |" for name, taken in self.phases.items()]
        total = sum(self.gpuprov.values())
        ratio = total / sum(floor.values())
        rows += [f"| **gpuprov** | **{total:.1f}**: {ratio:.2f} times the floor (goal: {GOAL}) |"]
        return "\n".join(rows)


def engine_packages() -> list[str]:
    """What the role `host` installs for LXD on Debian."""
    shared, own = (yaml.safe_load((ROOT / f"roles/host/vars/{name}.yml").read_text()) for name in ("main", "Debian"))
    return [*shared["host_shared_packages"], *own["host_engine_packages"]["lxd"]]


def run(*argv: str, check: bool = True, **environment: str) -> str:
    """Run a command; its output is the evidence when it fails."""
    wanted = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **environment}
    finished = subprocess.run(argv, check=False, capture_output=True, text=True, env=wanted)
    if finished.returncode and check:
        raise SystemExit(f"{' '.join(argv)}\n{finished.stdout}{finished.stderr}")
    return finished.stdout + finished.stderr


def forget_images(recipe: Recipe) -> None:
    """Remove the recipe's image and all imported bases; what was created from them is independent of them."""
    built = json.loads(subprocess.check_output([GPUPROV, "--json", "image", "list"]))["images"]
    for image in built:
        if image["engine"] == "lxd" and image["labels"].get(LABEL_FINGERPRINT) == recipe.fingerprint:
            run(GPUPROV, "image", "rm", "--engine", "lxd", image["name"])
    for image in json.loads(subprocess.check_output(["lxc", "query", "/1.0/images?recursion=1"])):  # noqa: S607
        if image["properties"].get("description", "").startswith("gpuprov-base-"):
            run("lxc", "image", "delete", image["fingerprint"])


def clean() -> None:
    """Remove what this script made, as far as it came."""
    run(GPUPROV, "cluster", "down", NAME, "--yes", "--engine", "lxd", check=False)
    for name in NAMES:
        run("lxc", "delete", "--force", name, check=False)
    run("lxc", "image", "delete", NAME, check=False)


def main() -> None:
    """Run everything, and leave nothing but the image."""
    spec = ClusterSpec()
    gpus = observe(root=Path("/"), mode="simulated")
    recipe = node_recipe(spec, role_of(spec.nodes.role).recipe, gpus, init="systemd")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), recipe, engine_packages())
        try:
            bench.measure_gpuprov()
            bench.measure_floor()
        finally:
            clean()
        sys.stdout.write(f"{bench.render()}\n")


if __name__ == "__main__":
    main()
