"""Where this user's gpuprov keeps what concerns other hosts: configuration, and what is gone after a reboot."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.core.own_folders import own_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.link.address import RemoteMachine

_PRIVATE: Final = 0o700
# A socket's path has 107 bytes at most, and ssh makes it under a name that is 17 longer; ours adds 22
_LONGEST_FOLDER: Final = 60


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders.

    Attributes:
        config: Holds the inventory of hosts and their host keys; a user may keep it in a repository.
        runtime: Holds control sockets of ssh, and since when hosts are unreachable; nobody else can enter it.
    """

    config: Path
    runtime: Path

    @property
    def inventory(self) -> Path:
        """The hosts that `host add` has written, as Ansible reads them."""
        return self.config / "hosts.yml"

    @property
    def known_hosts(self) -> Path:
        """The host keys that `host add` has accepted."""
        return self.config / "known_hosts"

    def socket(self, machine: RemoteMachine) -> Path:
        """Of the one connection to a host; another way to it is another connection."""
        way = [machine.address, machine.user, machine.port, machine.identity_file, machine.proxy_jump]
        return self.runtime / f"{short(fingerprint(way))}.ssh"

    def mark_away(self, machine: RemoteMachine) -> str:
        """Note that a host does not answer; returns since when that is known, in UTC."""
        mark = self.runtime / f"{machine.name}.away"
        with suppress(OSError):  # it is there, or there is no room for it
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
        try:
            seconds = mark.lstat().st_mtime
        except FileNotFoundError:  # another run has just reached it
            seconds = time.time()
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def is_away(self, machine: RemoteMachine) -> bool:
        """Whether it did not answer when it was last asked."""
        return (self.runtime / f"{machine.name}.away").exists()

    def mark_there(self, machine: RemoteMachine) -> None:
        """Note that a host answers."""
        (self.runtime / f"{machine.name}.away").unlink(missing_ok=True)


def ensure_places(environment: Mapping[str, str] = os.environ) -> Places:
    """This user's; the one for the runtime is made.

    Raises:
        HostNotReady: Somebody else has made that folder.
    """
    config = own_folder("XDG_CONFIG_HOME", ".config", environment)
    return Places(config=config / "gpuprov", runtime=_private_folder(environment))


def _private_folder(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_RUNTIME_DIR", "")
    own = Path(given) / "gpuprov-ssh"
    if not given or not Path(given).is_dir() or len(os.fsencode(own)) > _LONGEST_FOLDER:
        own = Path(tempfile.gettempdir()) / f"gpuprov-ssh-{os.getuid()}"
    if len(os.fsencode(own)) > _LONGEST_FOLDER:
        own = Path("/tmp") / f"gpuprov-ssh-{os.getuid()}"  # noqa: S108 - refused below where it is not this user's
    try:
        with suppress(FileExistsError):
            own.mkdir(mode=_PRIVATE)
        seen = own.lstat()
    except OSError as error:
        raise _refuse(own, str(error)) from error
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) != _PRIVATE:
        mode = f"{stat.S_IMODE(seen.st_mode):04o}"
        raise _refuse(own, f"it is not a folder of uid {os.getuid()} with mode 0700: uid {seen.st_uid}, mode {mode}")
    return own


def _refuse(folder: Path, evidence: str) -> HostNotReady:
    return HostNotReady(
        "no private folder for connections of ssh",
        evidence=f"{folder}: {evidence}",
        fix=f"sudo rm -r {folder}, or set XDG_RUNTIME_DIR to a folder of your own",
    )
