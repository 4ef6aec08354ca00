"""The list of security updates: as apt fetches it, and as it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.provision import security_index
from gpuprov.provision.security_index import fetch_index, parse_packages, read_index, render_source

if TYPE_CHECKING:
    from pathlib import Path

LISTS = """Package: libssl3
Source: openssl
Version: 3.0.9-1
Description: TLS
 Version: 9 is a line of the description

Package: bash
Version: 5.2-1

Package: libssl3
Version: 3.0.17-1
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that fetches LISTS; the returned file makes it fail with what it holds."""
    broken, program = tmp_path / "broken", tmp_path / "bin/apt-get"
    program.parent.mkdir()
    (tmp_path / "lists").write_text(LISTS)
    program.write_text(f"""#!/bin/sh
[ ! -e {broken} ] || {{ cat {broken} >&2; exit 100; }}
for word; do case $word in --option=Dir::State=*) state=${{word#--option=Dir::State=}};; esac; done
grep -q security "$state/sources.list" && cp {tmp_path}/lists "$state/lists/mirror_binary-amd64_Packages"
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(security_index, "MACHINE_CACHE", tmp_path / "machine")
    return broken


def test_the_newest_version_of_each_package_counts() -> None:
    assert parse_packages(LISTS) == {"libssl3": "3.0.17-1", "bash": "5.2-1"}


def test_what_was_fetched_is_kept_for_all_users(tmp_path: Path, apt: Path) -> None:
    assert not apt.exists()
    mine, machine = tmp_path / "mine", tmp_path / "machine"
    assert read_index("bookworm", mine) is None
    found = fetch_index("bookworm", ubuntu=False, cache=machine)
    assert found.versions["libssl3"] == "3.0.17-1"
    assert read_index("bookworm", mine) == found
    newer = fetch_index("bookworm", ubuntu=False, cache=mine)
    assert read_index("bookworm", mine) == newer
    assert [path.name for path in mine.iterdir()] == ["security-bookworm.json"]


def test_a_mirror_that_does_not_answer_leaves_what_there_was(tmp_path: Path, apt: Path) -> None:
    found = fetch_index("bookworm", ubuntu=False, cache=tmp_path / "mine")
    apt.write_text("E: Could not connect\n")
    with pytest.raises(HostNotReady, match="security updates of bookworm") as caught:
        fetch_index("bookworm", ubuntu=False, cache=tmp_path / "mine")
    assert "apt-get update" in caught.value.fix
    assert read_index("bookworm", tmp_path / "mine") == found
    apt.write_text("W: NO_PUBKEY 0123\n")
    with pytest.raises(HostNotReady) as caught:
        fetch_index("bookworm", ubuntu=False, cache=tmp_path / "mine")
    assert "debian-archive-keyring" in caught.value.fix


@pytest.mark.parametrize(
    "text", ["", "[]", '{"fetched": "1", "versions": {}}', '{"fetched": 1.0, "versions": {"a": 1}}']
)
def test_a_damaged_list_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(security_index, "MACHINE_CACHE", tmp_path)
    (tmp_path / "security-bookworm.json").write_text(text)
    assert read_index("bookworm", tmp_path) is None
    assert read_index("../bookworm", tmp_path) is None


def test_each_distribution_has_its_mirror() -> None:
    assert "debian-security bookworm-security main\n" in render_source("bookworm", ubuntu=False, machine="aarch64")
    assert "security.ubuntu.com/ubuntu noble-security main" in render_source("noble", ubuntu=True, machine="x86_64")
    assert "ports.ubuntu.com" in render_source("noble", ubuntu=True, machine="aarch64")
