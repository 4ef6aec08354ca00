"""What dpkg has in an image, and which updates it lacks."""

from __future__ import annotations

import base64
import subprocess
import zlib

import pytest

from gpuprov.provision.package_versions import (
    ASK_VERSIONS,
    PackageVersions,
    dump_versions,
    lacking_updates,
    read_versions,
)

ANSWER = "debian bookworm\nlibssl3 3.0.11-1~deb12u2\nlibc6:amd64 2.36-9+deb12u4\n"


def test_a_label_is_read_again() -> None:
    versions = {"libssl3": "3.0.11-1~deb12u2", "libc6:amd64": "2.36-9+deb12u4"}
    assert read_versions(dump_versions(ANSWER)) == PackageVersions(suite="bookworm", ubuntu=False, versions=versions)
    ubuntu = read_versions(dump_versions(ANSWER.replace("debian bookworm", "ubuntu noble")))
    assert ubuntu is not None
    assert ubuntu.ubuntu


@pytest.mark.parametrize(
    "label",
    ["", "?", "aGVsbG8=", dump_versions(""), dump_versions("debian\n"), dump_versions("debian bookworm\na b c\n")],
)
def test_any_other_label_is_none(label: str) -> None:
    assert read_versions(label) is None


@pytest.mark.slow
def test_a_label_that_grows_is_cut_off() -> None:
    assert read_versions(base64.b64encode(zlib.compress(b"x" * 50_000_000)).decode()) is None


def test_only_newer_versions_of_what_is_there_are_lacking() -> None:
    installed = {"libssl3": "3.0.11-1~deb12u2", "bash": "5.2-2", "tar": "1.34"}
    published = {"libssl3": "3.0.17-1~deb12u3", "bash": "5.2-2", "tar": "1.30", "vim": "9"}
    assert lacking_updates(installed, published) == ("libssl3",)


@pytest.mark.slow
def test_dpkg_answers() -> None:
    found = subprocess.run(["/bin/sh", "-c", ASK_VERSIONS], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    read = read_versions(dump_versions(found))
    assert read is not None
    assert "dpkg" in read.versions
