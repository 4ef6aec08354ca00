"""Which files of a project are frozen with a run, and what cannot be."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.grids import RUNS
from gpuprov.shapes.limits import GIB, MIB
from gpuwork.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEFT_OUT: Final = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"}
)
_ENVIRONMENT: Final = "pyvenv.cfg"  # is in every virtual environment
_GIT_S: Final = 60
_FIX = "keep data outside the project and give its path as a parameter, or name it in .gitignore"


@dataclass(frozen=True, kw_only=True)
class ProjectLimits:
    """How large a project may be."""

    file_bytes: int = 256 * MIB
    all_bytes: int = GIB
    files: int = 20_000


def list_files(project: Path, *, limits: ProjectLimits | None = None) -> tuple[list[str], list[Fault]]:
    """The files and links of a project, sorted, and what of it cannot be copied.

    What git knows or would add, where the project is in a git work tree; else everything. Caches, environments and
    `runs` in the project's folder are left out in either case: a copy without git has the same files.

    Raises:
        Refused: The folder cannot be read, or git does not answer.
    """
    limits = limits or ProjectLimits()
    if not project.is_dir():
        raise Refused(
            f"{project} is not a folder", evidence=f"a project is a folder: {project}", fix=f"ls -ld {project}"
        )
    names: list[str] = []
    faults: list[Fault] = []
    total = 0
    for name in _names(project):
        path = project / name
        try:
            status = path.lstat()
            name.encode()
        except OSError as error:
            faults.append(Fault(file=name, message=f"cannot be read: {error.strerror}"))
            continue
        except UnicodeEncodeError:
            faults.append(Fault(file=ascii(name), message="has a name that is not UTF-8"))
            continue
        names.append(name)
        total += status.st_size
        if len(names) > limits.files:
            faults.append(Fault(file=project.name, message=f"has more than {limits.files:,} files: {_FIX}"))
            break
        faults += _file_faults(path, name, status, limits)
    if total > limits.all_bytes and not faults:
        message = f"has {total // MIB} MiB, more than {limits.all_bytes // MIB} MiB: {_FIX}"
        faults.append(Fault(file=project.name, message=message))
    faults += _dangling(project, names)
    return sorted(names), faults


def _file_faults(path: Path, name: str, status: os.stat_result, limits: ProjectLimits) -> Iterator[Fault]:
    if stat.S_ISLNK(status.st_mode):
        target = str(path.readlink())
        if target.startswith("/") or _resolve(name, target) is None:
            yield Fault(
                file=name,
                message=f"is a link out of the project, to {target}",
                allowed="a relative link inside the project",
            )
    elif not stat.S_ISREG(status.st_mode):
        yield Fault(file=name, message="is neither a file nor a link: remove it, or name it in .gitignore")
    elif status.st_size > limits.file_bytes:
        message = f"has {status.st_size // MIB} MiB, more than {limits.file_bytes // MIB} MiB: {_FIX}"
        yield Fault(file=name, message=message)
    elif not os.access(path, os.R_OK):
        yield Fault(file=name, message="cannot be read: Permission denied")


def _resolve(name: str, target: str) -> str | None:
    """Where a relative link leads, by its text alone; None if that is outside."""
    found = os.path.normpath(PurePosixPath(name).parent / target)
    return None if found == ".." or found.startswith("../") else found


def _dangling(project: Path, names: Sequence[str]) -> Iterator[Fault]:
    """Links within the project to something that is not copied."""
    copied = {*names, *(str(parent) for name in names for parent in PurePosixPath(name).parents)}
    for name in names:
        path = project / name
        if path.is_symlink():
            target = str(path.readlink())
            found = _resolve(name, target)
            if not target.startswith("/") and found is not None and found not in copied:
                yield Fault(
                    file=name, message=f"is a link to {target}, which does not exist or is not copied: remove it"
                )


def _names(project: Path) -> Iterator[str]:
    if not any((folder / ".git").exists() for folder in (project.resolve(), *project.resolve().parents)):
        yield from _walk(project, "")
        return
    listed = _git_names(project)
    environments = {name.removesuffix(f"/{_ENVIRONMENT}") for name in listed if name.endswith(f"/{_ENVIRONMENT}")}
    for name in listed:
        at = PurePosixPath(name)
        if at.parts[0] == RUNS or LEFT_OUT.intersection(at.parts) or environments.intersection(map(str, at.parents)):
            continue
        path = project / name
        if path.is_dir() and not path.is_symlink():  # a submodule, or a repository of its own
            yield from _walk(path, f"{name.rstrip('/')}/")
        elif path.is_symlink() or path.exists():  # else deleted, and not yet for git
            yield name


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise Refused(f"{folder} cannot be read", evidence=str(error), fix=f"ls -ld {error.filename}") from error

    for here, folders, files in os.walk(folder, onerror=fail):
        inner = os.path.relpath(here, folder)
        at = prefix if inner == "." else f"{prefix}{inner}/"
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in LEFT_OUT and f"{at}{name}" != RUNS and not Path(here, name, _ENVIRONMENT).exists()
        )
        for name in sorted({*files, *links} - LEFT_OUT):
            yield f"{at}{name}"


def _git_names(project: Path) -> list[str]:
    argv = ["git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_GIT_S, check=True, stdin=subprocess.DEVNULL)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error).encode()
        raise Refused(
            f"git cannot list the files of {project}",
            evidence=words.decode(errors="replace").strip()[:2000],
            fix=f"git -C {project} ls-files",
        ) from error
    return list(dict.fromkeys(os.fsdecode(name) for name in done.stdout.split(b"\0") if name))
