"""Runs on a host that has Python alone: tells what it is, and installs or removes gpuprov there. `host add` sends it.

bare_program.py PLACE look                    facts as JSON
bare_program.py PLACE install NAME            gpuprov from a tar of wheels on stdin, as PLACE/NAME
bare_program.py PLACE remove                  all that it has installed

It imports nothing of gpuprov's. What it prints are lines of JSON: steps, and facts or an error in three parts last.
PLACE/current leads to what is installed, and is changed last, in one step: a killed run leaves what was there before.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "made-by-gpuprov"  # in PLACE: it is ours
LINK = "usr/local/bin/gpuprov"  # below the root, so that people there can type the name
MOST_BYTES = 1_000_000_000
_WHEELS = "wheels"
_LOCK = ".lock"


class Failed(Exception):
    """What failed, the evidence, and what to do."""


def say(**line: Any) -> None:  # noqa: ANN401 - JSON
    """Tell the controller."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def tell_facts(place: Path) -> dict[str, Any]:
    """What the host is; changes nothing."""
    there = next(path for path in (place, *place.parents) if path.exists())
    return {
        "uid": os.getuid(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "free_bytes": shutil.disk_usage(there).free,
        "clock_s": time.time(),
        "installed": installed(place),
        "foreign": is_foreign(place),
    }


def installed(place: Path) -> str:
    """Name of what is installed; empty where nothing is."""
    current = place / "current"
    return str(current.readlink()) if current.is_symlink() and (current / "bin/gpuprov").is_file() else ""


def is_foreign(place: Path) -> bool:
    """Whether something else than ours is there."""
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        return True
    names = {path.name for path in place.iterdir()} if place.is_dir() else set()  # one look: another run may begin
    return bool(names) and MARK not in names


def install(place: Path, name: str) -> None:
    """Install it beside what is there, then switch."""
    refuse_foreign(place)
    place.mkdir(parents=True, exist_ok=True)
    (place / MARK).touch()
    with alone(place):
        folder, before = place / name, installed(place)
        for left in place.iterdir():  # of runs that were killed; what was just replaced may still be in use
            if left.name not in (MARK, _LOCK, "current", before) and left.is_dir():
                shutil.rmtree(left)
        if before != name:
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)  # the disk may be full
                raise
            switch(place, name)
        link(place)


def make(folder: Path) -> None:
    """An environment with all wheels."""
    shutil.rmtree(folder, ignore_errors=True)
    say(step="copying")
    wheels = folder / _WHEELS
    wheels.mkdir(parents=True)
    receive_wheels(wheels)
    say(step="creating the environment")
    call([sys.executable, "-m", "venv", "--without-pip", str(folder)], home=wheels)
    say(step="installing")
    (pip,) = wheels.glob("pip-*.whl")
    argv = [str(folder / "bin/python"), str(pip / "pip"), "install", "--no-index", "--no-deps"]
    call([*argv, "--disable-pip-version-check", "--no-cache-dir", *map(str, sorted(wheels.glob("*.whl")))], home=wheels)
    shutil.rmtree(wheels)


def receive_wheels(wheels: Path) -> None:
    """The files of a tar on stdin, which are wheels and nothing else."""
    left = MOST_BYTES
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            left -= member.size
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or Path(member.name).name != member.name or not member.name.endswith(".whl"):
                raise Failed("the file received is not a wheel", member.name, "")
            if left < 0:
                raise Failed("the file received is larger than gpuprov", member.name, "")
            with (wheels / member.name).open("wb") as file:
                shutil.copyfileobj(content, file)


def call(argv: list[str], *, home: Path) -> None:
    """Run a command; what it prints are steps. What it leaves in its home, as `rustc` does for pip, goes too."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(home), "LC_ALL": "C.UTF-8"}
    said = []
    with subprocess.Popen(  # noqa: S603 - commands of this program's own
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as running:
        for line in running.stdout or ():
            said.append(line.decode(errors="replace").rstrip())
            say(step=said[-1][:200])
    if running.returncode:
        raise Failed(
            f"{' '.join(argv[:4])} failed with exit status {running.returncode}",
            "\n".join(said[-15:]),
            "df -h /opt",
        )


def switch(place: Path, name: str) -> None:
    """Make it what is installed, in one step."""
    draft = place / "next"
    with suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to(name)
    draft.replace(place / "current")


def link(place: Path) -> None:
    """Let people type `gpuprov`, where nothing else has that name."""
    path = place.parent.parent / LINK
    target = place / "current/bin/gpuprov"
    if not path.is_symlink() and not path.exists() and path.parent.is_dir():
        path.symlink_to(target)


def uninstall(place: Path) -> None:
    """Take it all away."""
    if not place.exists():
        return
    refuse_foreign(place)
    path = place.parent.parent / LINK
    if path.is_symlink() and path.readlink() == place / "current/bin/gpuprov":
        path.unlink()
    with alone(place):
        for left in place.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            elif left.name not in (MARK, _LOCK):
                left.unlink()
    for name in (_LOCK, MARK):  # the mark last: until then, a run that is killed leaves what is known to be ours
        with suppress(FileNotFoundError):
            (place / name).unlink()
    place.rmdir()


def refuse_foreign(place: Path) -> None:
    """Touch nothing of others."""
    if is_foreign(place):
        raise Failed(f"{place} is not gpuprov's", f"it lacks {place}/{MARK}", f"look at it: ls -la {place}")


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """One at a time."""
    with (place / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(place: str, verb: str, *names: str) -> int:
    """Do one thing."""
    try:
        if verb == "look":
            say(facts=tell_facts(Path(place)))
        elif verb == "install":
            install(Path(place), names[0])
            say(done=verb)
        elif verb == "remove":
            uninstall(Path(place))
            say(done=verb)
    except Failed as failed:
        what, evidence, fix = failed.args
        say(failed={"what": what, "evidence": evidence, "fix": fix})
        return 1
    except OSError as error:
        say(failed={"what": f"{place} cannot be changed", "evidence": str(error), "fix": f"df -h {place}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
