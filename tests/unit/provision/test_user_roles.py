from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.provision.user_roles import copied_roles, hash_role

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def role(tmp_path: Path) -> Path:
    folder = tmp_path / "mine" / "motd"
    for part in ("tasks", "files", ".git"):
        (folder / part).mkdir(parents=True)
        (folder / part / "main.yml").write_text(f"# {part}\n")
    (folder / "files/run").write_text("#!/bin/sh\n")
    (folder / "files/run").chmod(0o755)
    (folder / "files/link").symlink_to("run")
    return folder


def test_a_copy_is_what_was_hashed(role: Path, tmp_path: Path) -> None:
    with copied_roles([role], tmp_path / "cache") as (copy,):
        assert (copy.name, hash_role(copy)) == ("motd", hash_role(role))
        assert (copy / "files/run").stat().st_mode & 0o777 == 0o755
        assert (copy / "files/link").readlink().name == "run"
        assert not (copy / ".git").exists()
        before = hash_role(copy)
        (role / "tasks/main.yml").write_text("# edited\n")
        assert hash_role(copy) == before != hash_role(role)
    assert list((tmp_path / "cache").iterdir()) == []


def test_all_that_is_applied_counts_and_nothing_else(role: Path) -> None:
    seen = {hash_role(role)}
    (role / ".git/main.yml").write_text("another commit\n")
    seen.add(hash_role(role))
    assert len(seen) == 1
    (role / "README.md").touch()
    seen.add(hash_role(role))
    (role / "files/run").chmod(0o644)
    seen.add(hash_role(role))
    (role / "files/link").unlink()
    (role / "files/link").symlink_to("main.yml")
    seen.add(hash_role(role))
    (role / "files/link").rename(role / "files/other")
    seen.add(hash_role(role))
    assert len(seen) == 5


def test_a_role_that_is_gone_is_told_by_name_and_leaves_no_copies(role: Path, tmp_path: Path) -> None:
    gone = role.with_name("gone")
    with (
        pytest.raises(HostNotReady, match="the role gone of") as caught,
        copied_roles([role, gone], tmp_path / "cache"),
    ):
        pass
    assert str(gone) in caught.value.evidence
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(HostNotReady, match="the role gone of"):
        hash_role(gone)


def test_without_roles_there_is_no_folder(tmp_path: Path) -> None:
    with copied_roles([], tmp_path / "cache") as copies:
        assert copies == ()
    assert not (tmp_path / "cache").exists()
