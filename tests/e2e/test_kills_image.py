"""An image build killed anywhere: the next one makes the image of an undisturbed one, and nothing else is left.

A kill is counted only by a test that has compared the image.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.base import BUILDER
from gpuprov.provision.folder import abandoned_folders
from tests.e2e.conftest import lxd
from tests.e2e.killing import SIGNALS, Blow, loose_links, strike
from tests.e2e.lives import counted
from tests.e2e.remains import LXD, find_folders, find_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How

pytestmark = pytest.mark.long
BUILD = ("image", "build", "--role", "plain", "--package", "tree", "--gpu-mode", "simulated")
PHASES = ("base", "builder", "wheels", "roles", "publish")
STEPS = [f"{phase}{ending}" for phase in PHASES for ending in (" ...", " done")]
KILLS: list[tuple[How, str]] = [
    ("SIGINT", "builder done"),
    ("SIGKILL", "roles ..."),
    ("SIGTERM", "publish ..."),
    ("engine", "publish ..."),
]
VOLATILE = ("/tmp", "/run", "/var/tmp", "/var/log", "/var/cache")


def contents(name: str) -> dict[str, object]:
    """All that an image is: config, labels, packages, and each file's kind, mode, owner and, of links, target."""
    (item,) = (item for item in lxd("instances?recursion=1") if item["name"] == name)
    (root,) = (path for lxd_root in LXD for path in Path(lxd_root).glob(f"storage-pools/*/containers/{name}/rootfs"))
    found: dict[str, object] = {
        "status": item["status"],
        "devices": item["devices"],
        "config": {key: value for key, value in item["config"].items() if not key.startswith("volatile.")},
    }
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    for paragraph in status.strip().split("\n\n"):
        package = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        found[f"package {package['Package']}"] = package
    for folder, folders, files in os.walk(root):
        inside = "/" + os.path.relpath(folder, root).removeprefix(".")
        if inside in VOLATILE:
            folders.clear()
            continue
        for entry in (*folders, *files):
            path = Path(folder, entry)
            state = path.lstat()
            found[f"{inside}/{entry}"] = (
                state.st_mode,
                state.st_uid,
                state.st_gid,
                path.is_symlink() and path.readlink(),
            )
    return found


def surroundings() -> dict[str, Any]:
    """What a build must not leave anything of, besides its image."""
    return {
        "LXD": sorted(url for kind in ("instances", "networks", "images") for url in lxd(kind)),
        "builder": find_folders(BUILDER),
        "links": loose_links(),
        "plays": abandoned_folders(),
        "bases": sorted(Path(tempfile.gettempdir()).glob(".gpuprov-base-*")),
        "mounts": find_mounts("mmdebstrap"),
    }


class Builds:
    """Image builds, each to be compared with an undisturbed one, whose image is removed again."""

    def __init__(self, gpuprov: Gpuprov) -> None:
        self.gpuprov = gpuprov
        images = self.images()
        gpuprov(*BUILD)
        (self.image,) = self.images() - images
        self.contents = contents(self.image)
        self.after = surroundings()
        self.remove()
        self.before = surroundings()  # the base is there by now, and stays
        assert f"/1.0/instances/{BUILDER}" not in self.before["LXD"]

    def images(self) -> set[str]:
        return {image["name"] for image in self.gpuprov.json("image", "list")["images"]}

    def remove(self) -> None:
        self.gpuprov("image", "rm", self.image)

    def finish(self) -> float:
        """Build it, and compare; the seconds that the build took."""
        began_s = time.monotonic()
        self.gpuprov(*BUILD)
        seconds = time.monotonic() - began_s
        assert self.gpuprov(*BUILD).stdout == "unchanged\n"
        now = contents(self.image)
        differ = {key: (self.contents.get(key), now.get(key)) for key in {*self.contents, *now}}
        assert {key: pair for key, pair in differ.items() if pair[0] != pair[1]} == {}
        assert surroundings() == self.after
        return seconds


@pytest.fixture(scope="module")
def builds(gpuprov: Gpuprov) -> Builds:
    return Builds(gpuprov)


@pytest.fixture(autouse=True)
def nothing_is_left(builds: Builds) -> Iterator[None]:
    yield
    builds.remove()


@pytest.mark.parametrize(("how", "step"), KILLS)
def test_a_build_is_killed(builds: Builds, gpuprov: Gpuprov, ledger: Ledger, how: How, step: str) -> None:
    blow = Blow(how=how, step=step)
    stopped = strike(gpuprov, BUILD, blow)
    assert stopped.reached
    with counted(ledger, "image build", blow) as count:
        if how == "engine":
            gpuprov("host", "prepare")
        if stopped.exit_code == 130:  # one that is published when the word comes stays
            assert surroundings() in (builds.before, builds.after)
            assert step.startswith("publish") or builds.image not in builds.images()
        count.seconds = builds.finish()


def test_a_build_is_killed_at_every_phase_in_turn(builds: Builds, gpuprov: Gpuprov, ledger: Ledger) -> None:
    """Each build goes on where kills have left the last one; all are survived if the one after them is."""
    hows: tuple[How, ...] = (*SIGNALS, "engine")
    with ExitStack() as survived:
        for number, step in enumerate(STEPS):
            blow = Blow(how=hows[number % len(hows)], step=step)
            assert strike(gpuprov, BUILD, blow).reached
            survived.enter_context(counted(ledger, "image build, ten in turn", blow))
            if blow.how == "engine":
                gpuprov("host", "prepare")
            assert builds.image not in builds.images() or step.startswith("publish")
            if step == "publish ...":  # it may have been published
                builds.remove()
        builds.finish()
