"""The distribution's newest security updates, as `host prepare --refresh` has fetched them with apt, and kept."""

from __future__ import annotations

import platform
import re
import shutil
import time
from pathlib import Path
from typing import Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run
from gpuprov.provision.rootfs import NO_KEY_FIX
from gpuprov.provision.unfinished import unfinished_folder
from gpuprov.shapes.base import encode, read
from gpuprov.shapes.records import SecurityIndex

FETCH_S: Final = 180.0
MACHINE_CACHE: Final = Path("/var/cache/gpuprov")
_KEYS: Final = "/usr/share/keyrings"
_SUITE: Final = re.compile(r"[a-z]+")
_STANZA: Final = re.compile(r"^(Package|Version): (\S+)$", re.MULTILINE)


def render_source(suite: str, *, ubuntu: bool, machine: str) -> str:
    """The line of apt's sources that has a suite's security updates."""
    if ubuntu:
        ports = machine not in {"x86_64", "i686"}
        address = "http://ports.ubuntu.com/ubuntu-ports" if ports else "http://security.ubuntu.com/ubuntu"
        return f"deb [signed-by={_KEYS}/ubuntu-archive-keyring.gpg] {address} {suite}-security main universe\n"
    address = "http://security.debian.org/debian-security"
    return f"deb [signed-by={_KEYS}/debian-archive-keyring.gpg] {address} {suite}-security main\n"


def fetch_index(suite: str, *, ubuntu: bool, cache: Path) -> SecurityIndex:
    """Fetch it anew with apt, which verifies its signature, in a folder of its own; the machine's lists stay.

    Raises:
        HostNotReady: apt failed.
        TimedOut: It took too long.
    """
    folder = unfinished_folder(cache, "security")
    try:
        (folder / "lists/partial").mkdir(parents=True)
        (folder / "sources.list").write_text(render_source(suite, ubuntu=ubuntu, machine=platform.machine()))
        folder.chmod(0o755)  # apt fetches as a user of its own
        options = {
            "Dir::State": folder,
            "Dir::State::lists": "lists",
            "Dir::Cache": folder,
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Acquire::Languages": "none",
            "Acquire::GzipIndexes": "false",
            "Acquire::Retries": "1",
            "APT::Update::Error-Mode": "any",
        }
        argv = ["apt-get", "--quiet=2", *(f"--option={key}={value}" for key, value in options.items()), "update"]
        try:
            run(argv, timeout_s=FETCH_S)
        except GpuprovError as failed:
            reach = "check whether this machine can reach the mirror: apt-get update"
            raise type(failed)(
                f"could not fetch the list of security updates of {suite}: {failed.what}",
                evidence=failed.evidence,
                fix=NO_KEY_FIX if "NO_PUBKEY" in failed.evidence else reach,
            ) from failed
        text = "\n".join(path.read_text(encoding="utf-8") for path in (folder / "lists").glob("*_Packages"))
        index = SecurityIndex(fetched=time.time(), versions=parse_packages(text))
        kept = folder / "kept.json"
        kept.write_bytes(encode(index))
        kept.replace(_place(cache, suite))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return index


def parse_packages(text: str) -> dict[str, str]:
    """The newest version of each package, from apt's lists."""
    from gpuprov.core.debian_version import older_version

    found: dict[str, str] = {}
    name = ""
    for field, value in _STANZA.findall(text):
        if field == "Package":
            name = value
        elif name and (name not in found or older_version(found[name], value)):
            found[name] = value
    return found


def read_index(suite: str, cache: Path) -> SecurityIndex | None:
    """What was fetched last by this user or by root; None where nobody has fetched it."""
    if not _SUITE.fullmatch(suite):
        return None
    found = [index for folder in {cache, MACHINE_CACHE} if (index := _read(_place(folder, suite)))]
    return max(found, key=lambda index: index.fetched, default=None)


def _read(path: Path) -> SecurityIndex | None:
    try:
        return read(SecurityIndex, path.read_bytes())
    except (OSError, ValueError):
        return None


def _place(cache: Path, suite: str) -> Path:
    return cache / f"security-{suite}.json"
