"""The locks of this release cover all that gpuprov installs, on every Python that it supports."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.renew_locks import wanted_locks
from gpuprov.core.errors import HostNotReady
from gpuprov.provision.own_wheel import own_requirements
from gpuprov.provision.payload import PAYLOADS
from gpuprov.provision.recipe import REQUIREMENTS, TOOLKIT
from gpuprov.provision.wheel_lock import (
    LOCKS,
    OWN,
    PYTHONS,
    LockedPackage,
    WheelLock,
    find_lock,
    hash_locks,
    load_lock,
    parse_lock,
    require_hashes,
)
from gpuprov.roles.registry import ROLES

IMAGES = [
    ("pip", *REQUIREMENTS[cuda], *role.recipe.requirements, *toolkit)
    for cuda in REQUIREMENTS
    for role in ROLES.values()
    for toolkit in ((), TOOLKIT[cuda])
]
INSTALLED = [*IMAGES, *(("pip", *requirements) for requirements, _ in PAYLOADS.values()), ("pip", *own_requirements())]
LOCK = WheelLock(
    roots=("a[x]>=1", "d"),
    packages=(
        LockedPackage(name="a", version="1.2", hashes=("sha256:aa", "sha256:ab")),
        LockedPackage(name="b", version="1", pythons=("3.10", "3.11"), hashes=("sha256:b1",), via=("a",)),
        LockedPackage(name="b", version="2", pythons=("3.12",), hashes=("sha256:b2",), via=("a",)),
        LockedPackage(name="c", version="3+x", hashes=("sha256:cc",), via=("b", "d")),
        LockedPackage(name="d", version="4", hashes=("sha256:dd",)),
    ),
)


def test_locks_are_of_what_is_required_now() -> None:
    assert {path.stem for path in LOCKS.iterdir()} == set(wanted_locks())
    for name, roots in wanted_locks().items():
        assert load_lock(name).roots == tuple(dict.fromkeys(roots)), f"{name}: run: make locks"


@pytest.mark.parametrize("requirements", INSTALLED, ids=" ".join)
def test_all_that_is_installed_has_a_hash(requirements: tuple[str, ...]) -> None:
    for python in PYTHONS:
        lock = find_lock(requirements, python)
        assert lock is not None
        assert lock.roots_include(requirements)
        locked = lock.closure(requirements, python)
        assert len({one.name for one in locked}) == len(locked), "one version of each"
        assert all(one.hashes for one in locked)


def test_a_python_that_no_lock_was_made_for_has_none() -> None:
    assert find_lock(REQUIREMENTS["none"], "3.99") is None
    assert find_lock(["unknown"]) is None
    assert hash_locks(["unknown"]) == ""


def test_what_setuptools_wrote_down_has_the_same_lock() -> None:
    """Installed from a wheel, gpuprov reads its requirements from there: without blanks, and in another order."""
    written = tuple(str(Requirement(text)) for text in own_requirements())
    assert written != own_requirements()
    lock = find_lock(written, "3.11")
    assert lock is not None
    assert lock.roots_include(written)
    assert hash_locks(written) == hash_locks(own_requirements())


def test_make_uses_hashes_on_the_same_pythons() -> None:
    makefile = Path(__file__).parents[3].joinpath("Makefile").read_text(encoding="utf-8")
    least, over = re.findall(r"\(3, (\d+)\)", next(line for line in makefile.splitlines() if "IS_LOCKED :=" in line))
    assert tuple(f"3.{minor}" for minor in range(int(least), int(over))) == PYTHONS
    assert f"--require-hashes --requirement $(LOCKS)/{OWN}.txt" in makefile


def test_what_is_written_is_read_again() -> None:
    text = "".join([*(f"# for: {root}\n" for root in LOCK.roots), *(package.dump() for package in LOCK.packages)])
    assert parse_lock(text) == LOCK
    assert 'b==2 ; python_version == "3.12" \\\n    --hash=sha256:b2\n    # via: a\n' in text


def test_a_closure_holds_what_is_needed_on_a_python() -> None:
    named = {python: [f"{one.name}{one.version}" for one in LOCK.closure(["A[x]>=1"], python)] for python in PYTHONS}
    assert named["3.11"] == ["a1.2", "b1", "c3+x"]
    assert named["3.12"] == ["a1.2", "b2", "c3+x"]
    assert named["3.13"] == ["a1.2"]
    assert [one.name for one in LOCK.closure(["d"])] == ["c", "d"]


def test_a_wheel_of_a_locked_version_must_be_the_locked_file(tmp_path: Path) -> None:
    wheel, other = tmp_path / "My_lib-1.0-py3-none-any.whl", tmp_path / "other-1-py3-none-any.whl"
    wheel.write_bytes(b"good")
    other.write_bytes(b"of the user")
    good = f"sha256:{hashlib.sha256(b'good').hexdigest()}"
    require_hashes([wheel, other], [LockedPackage(name="my-lib", version="1.0", hashes=(good,))])
    require_hashes([wheel, other], [LockedPackage(name="my-lib", version="2.0", hashes=("sha256:aa",))])
    with pytest.raises(HostNotReady, match="is not the file") as caught:
        require_hashes([wheel, other], [LockedPackage(name="my-lib", version="1.0", hashes=("sha256:aa",))])
    assert good in caught.value.evidence
    assert "pip config list" in caught.value.fix
