"""Whether a folder can be shared by nodes: decided by what stands at its path, and told in words."""

from __future__ import annotations

import pytest

from gpuprov.cluster.share import judge_folder
from gpuprov.core.errors import GpuprovError, HostNotReady, UsageError
from gpuprov.machine.folders import FolderKind, FolderLook

FOLDER, OWNER = "/data/results", 1_059_400


def folder(owner: int, *, empty: bool = False, can_give: bool = True) -> FolderLook:
    return FolderLook(kind="folder", at=FOLDER, owner=owner, empty=empty, can_give=can_give)


def other(kind: FolderKind, at: str = FOLDER, *, can_give: bool = True) -> FolderLook:
    return FolderLook(kind=kind, at=at, can_give=can_give)


@pytest.mark.parametrize(
    ("seen", "act"),
    [
        (other("absent"), "make"),
        (folder(0, empty=True), "take"),
        (folder(OWNER), ""),
        (folder(OWNER, empty=True), ""),
        (folder(OWNER, can_give=False), ""),
    ],
)
def test_a_folder_is_made_taken_or_as_it_has_to_be(seen: FolderLook, act: str) -> None:
    assert judge_folder(seen, FOLDER, OWNER) == act


@pytest.mark.parametrize(
    ("seen", "kind", "evidence", "fix"),
    [
        (other("link", "/data"), UsageError, "/data is a symbolic link", "readlink -f /data"),
        (other("file"), UsageError, f"{FOLDER} is not a folder", "use another folder"),
        (other("hidden", "/data"), HostNotReady, "this user may not read /data", "as root"),
        (folder(0), UsageError, "it belongs to user 0", f"chown -R {OWNER}:{OWNER} {FOLDER}"),
        (folder(1000, empty=True), UsageError, "it belongs to user 1000", "use another folder"),
        (folder(59400), UsageError, "it belongs to user 59400", f"chown -R {OWNER}:{OWNER} {FOLDER}"),
        (
            other("absent", can_give=False),
            HostNotReady,
            "it does not exist",
            f"sudo install -d -m 0750 -o {OWNER} -g {OWNER} {FOLDER}",
        ),
        (folder(0, empty=True, can_give=False), HostNotReady, "it belongs to root", "sudo install -d"),
        (other("hidden"), HostNotReady, "this user may not read", "as root"),
    ],
)
def test_anything_else_is_refused_in_words(seen: FolderLook, kind: type[GpuprovError], evidence: str, fix: str) -> None:
    with pytest.raises(kind) as caught:
        judge_folder(seen, FOLDER, OWNER)
    assert caught.value.what == f"the folder {FOLDER} cannot be shared by nodes"
    assert evidence in caught.value.evidence
    assert fix in caught.value.fix
