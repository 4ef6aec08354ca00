"""The accounts of a cluster's people as files of its nodes: pure functions.

The image's `libnss-extrausers` reads accounts from files of their own, so nobody runs `useradd`: all nodes have the
same files, and whoever goes is gone with them. `settle-people` in the image makes the folders (roles/base).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from gpuprov.core.fingerprint import fingerprint
from gpuprov.drivers.base import File
from gpuprov.spec.people import PEOPLE_GID, PEOPLE_GROUP, account_gid, accounts_of, home_of
from gpuprov.spec.shared_folder import ACCOUNT_UID, ANNEALS, GRIDS, JOBS, PROGRAMS, SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.cluster_spec import PersonSpec

PEOPLE_PLACE: Final = "/etc/gpuprov/people"
APPLIED: Final = f"{PEOPLE_PLACE}/applied"  # a digest of the others, written last
SETTLE: Final = "/usr/lib/gpuprov/settle-people"
_KEYS: Final = f"{PEOPLE_PLACE}/keys"
_NSS: Final = "/var/lib/extrausers"
_SHADOW_GID: Final = 42  # Debian's, on every machine


def people_files(
    people: Sequence[PersonSpec], *, shared: bool, login: bool = False, homes: str = "", directory: bool = False
) -> tuple[File, ...]:
    """What a node knows of people; all of it, too, where there are none.

    Args:
        people: Of the cluster; whoever is in a directory has no account here, and may be in a group.
        shared: Whether the node has the folder that nodes share, with their homes in it.
        login: Whether they log in to it without a job.
        homes: The folder of their homes, on a machine that is no node; empty for the usual one.
        directory: Whether a directory has people besides, who are not in the group of all people.
    """
    people = sorted(people, key=lambda person: (person.in_directory, person.uid, person.name))
    known = [person for person in people if not person.in_directory]
    names = ",".join(sorted(person.name for person in known))
    groups = [f"{PEOPLE_GROUP}:x:{PEOPLE_GID}:{names}", *(f"{person.name}:x:{person.uid}:" for person in known)]
    groups += [f"{account}:x:{account_gid(account)}:{','.join(who)}" for account, who in accounts_of(people).items()]
    contents = {
        f"{_NSS}/passwd": [
            f"{person.name}:x:{person.uid}:{person.uid}::{_home(person, homes, shared=shared)}:/bin/bash"
            for person in known
        ],
        f"{_NSS}/group": groups if people or directory else [],
        f"{_NSS}/shadow": [f"{person.name}:*:::::::" for person in known],
        _KEYS: [f"{person.name} {key}" for person in known for key in person.keys],
        f"{PEOPLE_PLACE}/limits": [f"{person.name} {person.gpus}" for person in people if person.gpus is not None],
        f"{PEOPLE_PLACE}/login": ["yes" if login else "no"],
        f"{PEOPLE_PLACE}/folders": _folders(people, homes, shared=shared, directory=directory),
    }
    files = [_file(path, lines) for path, lines in contents.items()]
    digest = fingerprint({file.path: hashlib.sha256(file.content).hexdigest() for file in files})
    return (*files, File(path=APPLIED, content=f"{digest}\n".encode()))


def is_about_people(file: File) -> bool:
    """Whether it is one of these files."""
    return file.path.startswith((f"{_NSS}/", f"{PEOPLE_PLACE}/"))


def keys_digest(people: Sequence[PersonSpec]) -> str:
    """SHA-256 of the file with their keys."""
    file = next(file for file in people_files(people, shared=False) if file.path == _KEYS)
    return hashlib.sha256(file.content).hexdigest()


def _home(person: PersonSpec, homes: str, *, shared: bool) -> str:
    return f"{homes}/{person.name}" if homes else home_of(person.name, shared=shared)


def _folders(people: Sequence[PersonSpec], homes: str, *, shared: bool, directory: bool) -> list[str]:
    """Mode, owner, group and path of each folder."""
    if not people and not (directory and shared):
        return []
    made = [
        f"0700 {person.uid} {person.uid} {_home(person, homes, shared=shared)}"
        for person in people
        if not person.in_directory
    ]
    if not shared:
        return [*([f"0711 0 0 {homes}"] if homes not in ("", "/home") else []), *made]
    accounts = [f"2770 0 {account_gid(account)} {SHARED}/accounts/{account}" for account in accounts_of(people)]
    closed = [f"0700 {ACCOUNT_UID} {ACCOUNT_UID} {folder}" for folder in (JOBS, GRIDS, ANNEALS, PROGRAMS)]
    parents = [*closed, f"0711 0 0 {SHARED}/home", *([f"0711 0 0 {SHARED}/accounts"] if accounts else [])]
    passable = [f"0711 {ACCOUNT_UID} {PEOPLE_GID} {SHARED}"] if directory else []
    return [*passable, *parents, *made, *accounts]


def _file(path: str, lines: Sequence[str]) -> File:
    content = "".join(f"{line}\n" for line in lines).encode()
    if path == _KEYS:
        return File(path=path, content=content, mode=0o600)
    if path.endswith("/shadow"):
        return File(path=path, content=content, mode=0o640, gid=_SHADOW_GID)
    return File(path=path, content=content)
