"""Versions of Debian packages; dpkg is asked for the truth where it is there."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise

import pytest

from gpuprov.core.debian_version import older_version

ORDERED = [
    "0.9~rc1",
    "0.9",
    "1.0~",
    "1.0",
    "1.0-0+deb12u1",
    "1.0-1",
    "1.0-1+b1",
    "1.0-1+deb12u2",
    "1.0-1+deb12u10",
    "1.0a",
    "1.0+dfsg-1",
    "1.0.1-1~bpo12+1",
    "1.0.1-1",
    "1.9",
    "1.10",
    "1:0.1-1",
]


def test_each_is_older_than_all_that_follow() -> None:
    for index, version in enumerate(ORDERED):
        assert not older_version(version, version)
        for later in ORDERED[index + 1 :]:
            assert older_version(version, later), (version, later)
            assert not older_version(later, version), (later, version)


def test_no_digits_and_zero_are_the_same() -> None:
    assert not older_version("1.0-0", "1.0")
    assert not older_version("1.0", "1.0-0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg") is None, reason="there is no dpkg")
def test_dpkg_says_the_same() -> None:
    for one, other in pairwise(ORDERED):
        assert subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False).returncode == 0, one
