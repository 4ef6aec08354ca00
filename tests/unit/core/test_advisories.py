"""The table of known holes: it parses, and versions are compared as their makers, or Debian, count them."""

from __future__ import annotations

import re
from datetime import date

import pytest

from gpuprov.core.advisories import Hole, Installed, find_holes, load_advisories
from gpuprov.core.debian_version import older_version

PRODUCTS = {"driver", "nvidia-container-toolkit", "runc", "docker", "lxd", "incus"}
TABLE = load_advisories()


def holes(product: str, version: str, debian: str = "") -> list[Hole]:
    return list(find_holes(TABLE, [Installed(product=product, version=version, debian=debian)]))


def ids(product: str, version: str, debian: str = "") -> set[str]:
    return {one for hole in holes(product, version, debian) for one in hole.advisory.ids}


def test_the_table_is_dated_and_whole() -> None:
    assert date.fromisoformat(TABLE.date) <= date.today()  # noqa: DTZ011 - a day more or less does not matter
    assert {entry.product for entry in TABLE.entries} == PRODUCTS
    for entry in TABLE.entries:
        assert entry.ids
        assert all(re.fullmatch(r"CVE-20\d\d-\d{4,}", one) for one in entry.ids), entry.ids
        assert entry.what
        assert entry.upstream or entry.debian, entry.ids
        assert set(entry.debian) <= {"12", "13"}
        for branch, fixed in entry.upstream.items():
            assert re.fullmatch(r"[0-9]+(\.[0-9]+)+", fixed)
            assert not branch or fixed.startswith(f"{branch}.")
        for least in entry.debian.values():
            assert re.fullmatch(r"(<=)?[0-9][0-9A-Za-z.+~]*-[0-9A-Za-z.+~]+", least), least


@pytest.mark.parametrize("release", ["12", "13"])
def test_what_debian_has_fixed_is_closed_and_the_revision_before_is_open(release: str) -> None:
    for entry in TABLE.entries:
        known = entry.debian.get(release)
        if known is None:
            continue
        bound = known.removeprefix("<=")
        found = ids(entry.product, bound, release)
        assert set(entry.ids) <= found if known != bound else not set(entry.ids) & found, (entry.ids, known)
        assert set(entry.ids) <= ids(entry.product, f"{bound}~", release), "dpkg puts a tilde before the end"
        assert not set(entry.ids) & ids(entry.product, f"{bound}.1", release), "nothing is known of later ones"


@pytest.mark.parametrize(
    ("product", "version", "release", "open_", "closed"),
    [
        ("runc", "1.1.5+ds1-1", "12", "CVE-2024-21626", "CVE-1"),
        ("runc", "1.1.5+ds1-1+deb12u1", "12", "CVE-2025-31133", "CVE-2024-21626"),
        ("runc", "1.1.15+ds1-2+b4", "13", "CVE-2025-31133", "CVE-2024-21626"),
        ("runc", "1.1.15+ds1-2+deb13u1", "13", "CVE-2025-52881", "CVE-2025-31133"),
        ("docker", "20.10.24+dfsg1-1+deb12u1+b6", "12", "CVE-2026-34040", "CVE-2024-41110"),
        ("docker", "26.1.5+dfsg1-9+b9", "13", "CVE-2026-34040", "CVE-2024-41110"),
        ("lxd", "5.0.2-5+deb12u6", "12", "CVE-2026-48749", "CVE-2026-40197"),
        ("lxd", "5.0.2-5+deb12u10", "12", "", "CVE-2026-40197"),
        ("lxd", "5.0.2+git20231211.1364ae4-9+deb13u7", "13", "CVE-2026-63294", "CVE-2026-48749"),
        ("incus", "6.0.4-2+deb13u7~bpo12+1", "12", "CVE-2026-48749", "CVE-2026-23953"),
        ("incus", "6.0.4-2+deb13u12", "13", "", "CVE-2026-115377"),
    ],
)
def test_debians_revisions(product: str, version: str, release: str, open_: str, closed: str) -> None:
    found = ids(product, version, release)
    assert open_ in found if open_ else not found
    assert closed not in found


def test_the_fixed_revision_is_told_or_that_there_was_none() -> None:
    (hole,) = [one for one in holes("runc", "1.1.15+ds1-2", "13") if "CVE-2025-31133" in one.advisory.ids]
    assert hole.fixed == ("1.1.15+ds1-2+deb13u1",)
    assert {one.fixed for one in holes("runc", "1.1.5+ds1-1+deb12u1", "12")} == {()}


@pytest.mark.parametrize(
    ("product", "version", "open_"),
    [
        ("driver", "535.309.00", True),
        ("driver", "535.309.01", False),
        ("driver", "580.95.05", True),
        ("driver", "580.159.04", False),  # the tested H100
        ("driver", "550.90.07", True),  # of a branch that got none
        ("driver", "600.10", False),
        ("nvidia-container-toolkit", "1.17.7-1", True),
        ("nvidia-container-toolkit", "1.17.8-1", False),
        ("docker", "5:29.3.0-1~debian.12~bookworm", True),
        ("docker", "5:29.3.1-1~debian.12~bookworm", False),
        ("docker", "nonsense", False),
        ("runc", "1.2.8", False),
        ("runc", "1.3.2", True),
        ("runc", "1.4.0", False),
    ],
)
def test_versions_of_the_makers(product: str, version: str, open_: bool) -> None:
    assert bool(ids(product, version)) is open_


def test_a_release_that_the_table_does_not_have_is_not_judged() -> None:
    assert not ids("runc", "0.1-1", "14")
    assert older_version("0.1-1", "1.1.5+ds1-1")
