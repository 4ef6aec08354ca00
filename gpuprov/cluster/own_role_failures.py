"""What went wrong in a role of the user's own while an image was built, by the folder that the user knows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuprov.core.errors import PlaybookError
from gpuprov.provision.playbook import TaskFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def told_by_folder(folders: Sequence[Path], copies: Sequence[Path]) -> Iterator[None]:
    """Name the folder of a role that failed, or that Ansible cannot read, instead of the copy that was applied."""
    try:
        yield
    except PlaybookError as error:
        failed = error.event.role if isinstance(error, TaskFailed) else ""
        for folder, copy in zip(folders, copies, strict=True):
            if failed == folder.name or f"{copy}/" in error.evidence:
                raise _told(error, folder, copy) from error
        raise


def _told(error: PlaybookError, folder: Path, copy: Path) -> PlaybookError:
    how = f"task '{error.event.task}' failed" if isinstance(error, TaskFailed) else "Ansible cannot apply it"
    return PlaybookError(
        f"the role {folder.name} of image.roles failed: {how}",
        evidence=f"role: {folder}\n{error.evidence}".replace(f"{copy}/", f"{folder}/"),
        fix=f"correct the role in {folder}, then run the same command again; the evidence names the complete log",
    )
