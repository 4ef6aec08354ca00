"""The age of what images are built from, and what goes once it was made anew."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpuprov.provision.cache_age import CacheAge, forget_older, look_at_cache

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 24 * 3600.0


def fill(cache: Path, now: float) -> None:
    """Two bases and two sets of wheels, and what is neither."""
    cache.mkdir()
    for name, days in (("rootfs-bookworm-systemd-0123456789ab.tar", 3), ("rootfs-trixie-runit-0123456789ab.tar", 40)):
        (cache / name).touch()
        os.utime(cache / name, (now - days * DAY_S, now - days * DAY_S))
    for name, days in (("wheels-3.11-0123456789ab", 1), ("wheels-3.13-0123456789ab", 100)):
        (cache / name).mkdir()
        os.utime(cache / name, (now - days * DAY_S, now - days * DAY_S))
    (cache / "wheels-3.13-0123456789ab.tar").touch()
    (cache / "rootfs-of-mine.tar").touch()
    (cache / "security-bookworm.json").touch()


def test_the_oldest_of_each_is_told(tmp_path: Path) -> None:
    now = time.time()
    fill(tmp_path / "cache", now)
    found = look_at_cache(tmp_path / "cache")
    assert (len(found.bases), len(found.wheels)) == (2, 2)
    told = "2 bases, the oldest 40 days old; 2 sets of wheels, the oldest 100 days old"
    assert found.describe(now + 1) == f"in {tmp_path / 'cache'}: {told}"
    assert CacheAge(folder=tmp_path, bases=(now - DAY_S,)).describe(now) == f"in {tmp_path}: 1 base, 1 day old"
    assert CacheAge(folder=tmp_path, wheels=(now,)).describe(now).endswith("1 set of wheels, less than a day old")


def test_an_empty_cache_says_nothing(tmp_path: Path) -> None:
    assert look_at_cache(tmp_path / "none").describe(0) == ""
    assert forget_older(tmp_path / "none", time.time()) == ()


def test_what_is_older_goes_but_not_what_a_build_may_use(tmp_path: Path) -> None:
    now, cache = time.time(), tmp_path / "cache"
    fill(cache, now)
    taken = cache / "rootfs-trixie-runit-0123456789ab.tar"
    other = cache / "wheels-3.12-0123456789ab"
    other.mkdir()
    for used in (taken, other):
        os.utime(used, (now, now - 3 * DAY_S))
    removed = forget_older(cache, now - DAY_S / 2, keep={cache / "wheels-3.11-0123456789ab"})
    assert removed == ("rootfs-bookworm-systemd-0123456789ab.tar", "wheels-3.13-0123456789ab")
    assert sorted(path.name for path in cache.iterdir()) == [
        "rootfs-of-mine.tar",
        "rootfs-trixie-runit-0123456789ab.tar",
        "security-bookworm.json",
        "wheels-3.11-0123456789ab",
        "wheels-3.12-0123456789ab",
    ]
