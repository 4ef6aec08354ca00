"""The runtime as engines run it: a copy in a folder of root's, which no upgrade and no other user can change."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.assets import PACKAGE, get_asset
from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import run
from gpuprov.core.fingerprint import fingerprint
from gpuprov.core.whole_file import replace_file
from gpuprov.machine.daemon_json import DEFAULT_RUNTIME, OURS, RUNTIME
from gpuprov.machine.simulated_nvml import write_nvml
from gpuprov.runtime import records, removal
from gpuprov.runtime.gpus import NVML_NAME, SMI_NAME
from gpuprov.runtime.rules import NAME as RULES
from gpuprov.runtime.settings import NAME, render_settings
from gpuprov.shapes.base import encode, read
from gpuprov.shapes.gate_policy import GatePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.runtime.settings import Settings

FOLDER: Final = Path("/var/lib/gpuprov/runtime")
HOOK: Final = "nvidia-container-runtime-hook"  # that dockerd looks for in its PATH before it takes --gpus
_MARK: Final = "# gpuprov: stands in for NVIDIA's hook"
_HOOK_TEXT: Final = f"""#!/bin/sh
{_MARK}, so that dockerd takes --gpus. The runtime `gpuprov` removes it from each container.
echo "gpuprov: this container was not started by the runtime gpuprov: docker run --runtime {RUNTIME} --gpus ..." >&2
exit 1
"""
_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
_OLDEST: Final = "import sys; sys.exit(sys.version_info < (3, 10))"
_PROGRAM: Final = f"{RUNTIME}-runtime"
_PROGRAMS: Final = {RUNTIME: _PROGRAM, DEFAULT_RUNTIME: f"{_PROGRAM}-default"}
_HAS_RULES: Final = re.compile(r"^TOUCH=[a-z]", re.MULTILINE)
_OLD_NAME: Final = "policy.json"  # of the settings, in an earlier gpuprov
_PARTS: Final = ("core", "gpu", "runtime")
_SHAPES: Final = ("__init__.py", "choices.py")  # those without msgspec


@contextmanager
def _usual_umask() -> Iterator[None]:
    """Nobody else may change what root runs, and everybody may look."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


@dataclass(frozen=True, kw_only=True)
class RuntimeProgram:
    """Where a daemon's runtime is."""

    folder: Path

    @property
    def places(self) -> dict[str, str]:
        """The program, by the name of the runtime."""
        return {name: str(self.folder / _PROGRAMS[name]) for name in OURS}

    @property
    def _library(self) -> Path:
        return self.folder / f"lib-{_fingerprint()[:12]}"

    def find(self) -> Path | None:
        """The program, if it is there."""
        place = Path(self.places[RUNTIME])
        return place if place.is_file() else None

    def is_current(self) -> bool:
        """Whether it is that of this gpuprov."""
        return self.find() is not None and self._library.is_dir()

    @property
    def has_nvml(self) -> bool:
        """Whether programs in containers can ask for simulated GPUs."""
        return (self.folder / NVML_NAME).is_file()

    def check_command(self) -> list[str] | None:
        """What runs it without a container; None where it is not there as this gpuprov has it."""
        if not self.is_current():
            return None
        script = str(self._library / "gpuprov/runtime/check.py")
        return ["env", "-i", str(find_python()), "-I", "-S", script, str(self._library), str(self.folder)]

    def find_rules(self) -> GatePolicy | None:
        """The administrator's policy, as it is in force.

        Raises:
            HostNotReady: There is one, and nobody can say what it is.
        """
        front = self.find()
        place = self.folder / RULES
        try:
            if place.exists():
                return read(GatePolicy, place.read_bytes())
            if front is None or not _HAS_RULES.search(front.read_text(encoding="utf-8")):
                return None
            why = "it is not there"
        except (OSError, ValueError) as error:
            why = str(error)
        raise HostNotReady(
            "the policy in force cannot be read",
            evidence=f"{place}: {why}",
            fix="sudo gpuprov gate up --policy FILE; without one from now on: sudo gpuprov gate up --policy none",
        )

    @_usual_umask()
    def write(self, settings: Settings, *, runc: Path, rules: GatePolicy | None = None) -> tuple[str, ...]:
        """Have it there as this gpuprov has it; returns a line for each change.

        Args:
            settings: What the runtime has to know of this machine.
            runc: The program that makes containers.
            rules: The administrator's policy; None for none.

        Raises:
            HostNotReady: It cannot be written, or no Python of the machine can run it.
        """
        python = find_python()
        try:
            _make_own(self.folder)
            library = self._library
            changed = [] if library.is_dir() else [f"copied the runtime to {self.folder}"]
            if not library.is_dir():
                _copy_library(library, python)
            head = {
                "FOLDER": str(self.folder),
                "LIBRARY": str(library),
                "RUNC": str(runc),
                "PYTHON": str(python),
                "LEASES": f"/{records.FOLDER}",
                "REMOVALS": f"/{removal.FOLDER}",
                "AFTER": str(removal.AFTER_S),
                "TOUCH": rules.touch if rules else "",
                "EXEC": "1" if rules and (rules.refuse.privileged or rules.refuse.capabilities) else "",
            }
            front = "".join(
                ["#!/bin/sh\n", *(f"{name}={shlex.quote(value)}\n" for name, value in head.items()), _front()]
            )
            place = self.folder / RULES
            if rules is not None and _write(place, f"{encode(rules).decode()}\n", 0o644):
                changed.append("put the policy into force")  # before the front that wants it
            written = [_write(self.folder / NAME, render_settings(settings), 0o644)]
            written += [_write(self.folder / name, front, 0o755) for name in _PROGRAMS.values()]
            if rules is None and place.exists():
                place.unlink()
                changed.append("removed the policy")
            smi = get_asset("roles") / "base/files/nvidia-smi"
            written.append(_write(self.folder / SMI_NAME, smi.read_text(encoding="utf-8"), 0o755))
            written.append(write_nvml(self.folder, settings.simulation, again=bool(changed)))
            if any(written) and not changed:
                changed.append(f"updated the runtime in {self.folder}")
            for other in self.folder.glob("lib-*"):
                if other != library:
                    shutil.rmtree(other)
            (self.folder / _OLD_NAME).unlink(missing_ok=True)
        except OSError as error:
            raise HostNotReady(
                "the runtime cannot be written", evidence=str(error), fix=f"ls -ld {self.folder}; df -h {FOLDER.parent}"
            ) from error
        return tuple(changed)

    def remove(self) -> tuple[str, ...]:
        """Have it there no more; returns a line for each change."""
        if not self.folder.is_dir():
            return ()
        shutil.rmtree(self.folder)
        with suppress(OSError):
            FOLDER.rmdir()
        return (f"removed {self.folder}",)


def program_for(socket: Path) -> RuntimeProgram:
    """That of the daemon behind a socket: each has its own."""
    usual = socket.resolve() in (Path("/run/docker.sock"), Path("/var/run/docker.sock"))
    name = "docker" if usual else "docker-" + fingerprint(str(socket.resolve()))[:12]
    return RuntimeProgram(folder=FOLDER / name)


def find_python() -> Path:
    """A Python of the machine itself that can run it: a virtual environment may go.

    Raises:
        HostNotReady: There is none.
    """
    places = [*map(Path, _PYTHONS), Path(sys.executable).resolve()]
    for place in places:
        if place.is_file() and run([str(place), "-I", "-S", "-c", _OLDEST], timeout_s=30, check=False).exit_code == 0:
            return place
    raise HostNotReady(
        "no Python of this machine can run the runtime",
        evidence=f"looked at {', '.join(map(str, places))}; 3.10 or later is needed",
        fix="apt-get install python3",
    )


def write_hook(folders: str) -> tuple[Path, bool] | None:
    """Have something of the hook's name in a folder of a daemon's programs; tells where, and whether it was made now.

    None where NVIDIA's own is there, which stays as it is.
    """
    found = shutil.which(HOOK, path=folders)
    if found:
        return (Path(found), False) if is_our_hook(Path(found)) else None
    folder = _choose_folder(folders)
    if folder is None:
        return None
    _write(folder / HOOK, _HOOK_TEXT, 0o755)
    return folder / HOOK, True


def remove_hook(folders: str) -> tuple[str, ...]:
    """Remove what stands in for the hook, unless another daemon has the runtime; returns a line for each change."""
    found = shutil.which(HOOK, path=folders)
    if not found or not is_our_hook(Path(found)) or any(FOLDER.glob(f"*/{_PROGRAM}")):
        return ()
    Path(found).unlink()
    return (f"removed {found}",)


def is_our_hook(path: Path) -> bool:
    """Whether it is ours, and not NVIDIA's."""
    with suppress(OSError), path.open("rb") as file:
        return _MARK.encode() in file.read(4096)
    return False


def _choose_folder(folders: str) -> Path | None:
    """Where programs are that the administrator adds, if that is one of them."""
    there = [Path(folder) for folder in folders.split(":") if folder.startswith("/")]
    usual = [folder for folder in there if str(folder) in ("/usr/local/bin", "/usr/local/sbin")]
    own = [folder for folder in (*usual, *there) if folder.is_dir() and folder.stat().st_uid == 0]
    return own[0] if own else None


def _front() -> str:
    return (PACKAGE / "runtime/front.sh").read_text(encoding="utf-8")


def _sources() -> Iterator[tuple[str, Path]]:
    """What is copied, by its place in the library."""
    yield "gpuprov/__init__.py", PACKAGE / "__init__.py"
    for part in _PARTS:
        for path in sorted((PACKAGE / part).iterdir()):
            if path.suffix in (".py", ".json", ".c"):
                yield f"gpuprov/{part}/{path.name}", path
    for name in _SHAPES:
        yield f"gpuprov/shapes/{name}", PACKAGE / "shapes" / name
    found = importlib.util.find_spec("pynvml")
    if found is not None and found.origin is not None:
        yield "pynvml.py", Path(found.origin)


def _fingerprint() -> str:
    return fingerprint({name: path.read_text(encoding="utf-8") for name, path in _sources()})


def _copy_library(library: Path, python: Path) -> None:
    """It appears whole."""
    draft = library.with_name(f".{library.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    for name, source in _sources():
        target = draft / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    run([str(python), "-I", "-m", "compileall", "-q", str(draft)], timeout_s=120, check=False)
    draft.rename(library)


def _make_own(folder: Path) -> None:
    """A folder of root's that nobody else can write to."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    seen = folder.stat()
    if seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) & 0o022:
        raise PermissionError(f"{folder} can be changed by others than root")


def _write(path: Path, content: str, mode: int) -> bool:
    """Make or replace a file in one step; tells whether that was needed."""
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == content and stat.S_IMODE(path.stat().st_mode) == mode:
            return False
    replace_file(path, content, mode=mode)
    return True
