"""Leases of containers: where each one's OCI runtime keeps its state, and what it holds as long as that is there.

A record lies in /run and points at the state that runc keeps of the container. It counts while that state has a
process, or while the process that is to become `runc create` lives; so it is over when the container is, whatever was
killed, and after a boot there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.excerpt import excerpt
from gpuprov.core.process import has_begun, is_gone
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.allocate import CONTAINERS, Lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.shapes.choices import Sharing

FOLDER: Final = Path("run/gpuprov/leases")  # below the root of the machine
_MOST_BYTES: Final = 64_000_000
_STATES: Final = {  # of runc and crun: the file, and its keys of the first process and of when that began
    "state.json": ("init_process_pid", "init_process_start"),
    "status": ("pid", "process-start-time"),
}


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a container holds.

    Attributes:
        id: The engine's own for it.
        name: By which people know it.
        minors: Of its GPUs' devices.
        state: The folder in which its OCI runtime keeps its state.
        process: That becomes `runc create` (core/process.py).
    """

    id: str
    name: str
    engine: str
    gpus: tuple[str, ...]
    sharing: Sharing
    minors: tuple[int, ...]
    state: str
    process: str

    @property
    def lease(self) -> Lease:
        """As others see it."""
        return Lease(
            node=self.name,
            gpus=self.gpus,
            sharing=self.sharing,
            engine=self.engine,
            cluster=CONTAINERS,
            status="running",
            minors=self.minors,
        )


def write_record(record: Record, *, root: Path = Path("/")) -> None:
    """Make or replace the record of a container; it is never seen half-written."""
    folder = root / FOLDER
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(folder / record.id, json.dumps(asdict(record)), mode=0o644)  # who may use an engine reads it too


def drop_record(container: str, *, root: Path = Path("/")) -> None:
    """Remove it; no change where there is none."""
    (root / FOLDER / container).unlink(missing_ok=True)


def read_records(*, root: Path = Path("/")) -> tuple[Record, ...]:
    """Those that count, by name.

    Raises:
        HostNotReady: Nobody knows what containers hold: the folder cannot be read, or is another's.
    """
    folder = root / FOLDER
    try:
        if folder.stat().st_uid not in (0, os.getuid()):
            raise PermissionError(f"{folder} is not root's")
        paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HostNotReady(
            "the leases of containers cannot be read", evidence=str(error), fix=f"ls -ld {folder}; sudo gpuprov gpus"
        ) from error
    found = map(_read, paths)
    return tuple(sorted((one for one in found if one and _counts(one, root)), key=lambda one: one.name))


def find_orphans(*, root: Path = Path("/")) -> tuple[str, ...]:
    """Ids of containers whose record counts no more."""
    with contextlib.suppress(OSError):
        names = [path.name for path in (root / FOLDER).iterdir() if not path.name.startswith(".")]
        return tuple(sorted({*names} - {record.id for record in read_records(root=root)}))
    return ()


def read_container_leases(*, root: Path = Path("/")) -> tuple[Lease, ...]:
    """What containers of this machine hold, besides nodes."""
    return tuple(record.lease for record in read_records(root=root))


def _read(path: Path) -> Record | None:
    try:
        said: dict[str, Any] = json.loads(_text(path))
        return Record(
            id=path.name,
            name=excerpt(str(said["name"])),
            engine=excerpt(str(said["engine"])),
            gpus=tuple(excerpt(str(gpu)) for gpu in said["gpus"]),
            sharing="shared" if said["sharing"] == "shared" else "exclusive",
            minors=tuple(int(minor) for minor in said["minors"]),
            state=str(said["state"]),
            process=str(said["process"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _counts(record: Record, root: Path) -> bool:
    is_over = is_gone(record.process)  # before the look at the state, which that process writes before it ends
    for name, (pid, began) in _STATES.items():
        try:
            state = json.loads(_text(root / record.state.lstrip("/") / name))
            process, start = int(state[pid]), str(state[began])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return True  # this user may not look, or it is written in another form: it takes nothing from anybody
        return has_begun(process, start) or _has_processes(state.get("cgroup_paths"))
    return not is_over


def _has_processes(groups: object) -> bool:
    """Whether something that the container started has outlived its first process."""
    paths: Iterable[object] = groups.values() if isinstance(groups, dict) else ()
    for path in paths:
        with contextlib.suppress(OSError):
            if (Path(str(path)) / "cgroup.procs").read_bytes().strip():
                return True
    return False


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES} bytes")
    return content.decode()
