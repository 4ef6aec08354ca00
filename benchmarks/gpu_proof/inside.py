"""Runs in the new namespaces: joins the control group, makes /dev of the devices that are leased, starts the program.

Gets one argument, JSON: `procs`, the group's file; `devices`, [path, major, minor]; `libraries`, [name, target] of
links; `argv`.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

NO_CONTAINER: Final = 125
LIBRARIES: Final = "/dev/gpuprov-libraries"
_COMMON = (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0))
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


def main() -> None:
    """Become the program; a machine that lets no container be made is no failure of the program."""
    wanted = json.loads(sys.argv[1])
    try:
        _enter(wanted)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_CONTAINER)
    os.execvp(wanted["argv"][0], wanted["argv"])  # noqa: S606


def _enter(wanted: dict[str, Any]) -> None:
    Path(wanted["procs"]).write_text("0", encoding="ascii")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "gpuprov-proof", "/dev"], check=True)  # noqa: S607
    os.umask(0)
    for path, major, minor in (*((f"/dev/{name}", *numbers) for name, *numbers in _COMMON), *wanted["devices"]):
        Path(path).parent.mkdir(exist_ok=True)
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    Path("/dev", "shm").mkdir(mode=0o1777)
    Path(LIBRARIES).mkdir(mode=0o755)
    links = {f"/dev/{name}": target for name, target in _LINKS.items()}
    for path, target in (*links.items(), *((f"{LIBRARIES}/{name}", target) for name, target in wanted["libraries"])):
        Path(path).symlink_to(target)


if __name__ == "__main__":
    main()
