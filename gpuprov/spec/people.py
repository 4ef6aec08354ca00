"""The rules for `people` of a spec: names, numbers and keys of those who have accounts in the nodes."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.cluster_spec import LEAST_UID, MOST_UID, ClusterSpec
from gpuprov.shapes.faults import find_faults
from gpuprov.spec.addressing import node_name, number_of_name
from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import PersonSpec
    from gpuprov.spec.rule import Found

FIRST_UID: Final = 10_001  # of people whose number nobody says
PEOPLE_GROUP: Final = "people"  # of all of them, in nodes
PEOPLE_GID: Final = 59_401
MOST_PEOPLE: Final = 2_000
MOST_KEYS: Final = 20
KEY_FORM: Final = "a public key of ssh on one line, such as ssh-ed25519 AAAA... ann@laptop"
# Accounts and groups of Debian, Ubuntu and of the packages that nodes have
_RESERVED_WORDS: Final = """
root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm tty disk
kmem dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev staff users input
sgx kvm render crontab netdev ssh sshd syslog messagebus munge slurm slurmdbd slurmrestd mysql rabbitmq epmd dask work
people polkitd uuidd tss lxd docker admin
"""
RESERVED: Final = frozenset(_RESERVED_WORDS.split())
_RESERVED_START: Final = "systemd-"
_KEY: Final = re.compile(r"([a-z0-9@.-]{1,60}) ([A-Za-z0-9+/]{16,8000}={0,2})(?: ([^\x00-\x1f\x7f]{0,200}))?")
_KEY_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_AFTER_OPTIONS: Final = re.compile(rf"\S\s+({'|'.join(map(re.escape, _KEY_TYPES))})\s")
_OPTIONS: Final = "has options before the key, and none are taken: they would limit logins alone, and not jobs"
_LENGTH: Final = 4  # bytes of the number before each part of a key
_FIRST_GID: Final = 20_000


def find_key_problem(key: str) -> str:
    """Why a text is no public key of ssh, in words that do not quote it; empty if it is one."""
    if "PRIVATE KEY" in key:
        return "is a private key, which must stay where it is"
    match = _KEY.fullmatch(key)
    if match is None:
        if "\n" in key.strip():
            return "has several lines"
        return _OPTIONS if _AFTER_OPTIONS.search(key) else "is not a public key"
    if match[1] not in _KEY_TYPES:
        return f"is of no type that sshd takes: {match[1]}"
    parts = _parts_of_key(match[2])
    if len(parts) < 2 or parts[0] != match[1].encode():  # noqa: PLR2004 - the type, and the key itself
        return f"is not a whole public key of type {match[1]}"
    return ""


def _parts_of_key(text: str) -> list[bytes]:
    """The parts of a key, each of which its length precedes; none where it is damaged."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return []
    parts = []
    while raw:
        size = int.from_bytes(raw[:_LENGTH], "big")
        if len(raw) < _LENGTH + size:
            return []
        parts.append(raw[_LENGTH : _LENGTH + size])
        raw = raw[_LENGTH + size :]
    return parts


def find_name_problem(name: str) -> str:
    """Why nobody can have this name or belong to an account of it, though it is well formed; empty if they can."""
    if name in RESERVED or name.startswith(_RESERVED_START):
        return "is an account or a group of the nodes"
    return ""


def account_gid(account: str) -> int:
    """The number of an account's group: it follows from the name, so that all nodes and hosts agree on it."""
    return _FIRST_GID + zlib.crc32(account.encode()) % (MOST_UID + 1 - _FIRST_GID)


def accounts_of(people: Iterable[PersonSpec]) -> dict[str, tuple[str, ...]]:
    """The names of those who belong to each account."""
    found: dict[str, list[str]] = {}
    for person in people:
        if person.account is not None:
            found.setdefault(person.account, []).append(person.name)
    return {account: tuple(sorted(names)) for account, names in sorted(found.items())}


def home_of(name: str, *, shared: bool) -> str:
    """Where the home of somebody is in nodes."""
    return f"{SHARED}/home/{name}" if shared else f"/home/{name}"


def free_uid(people: Iterable[PersonSpec]) -> int:
    """The next number for somebody; those of people who have gone are not given again as long as a higher one stays."""
    people = tuple(people)
    taken = {person.uid for person in people if person.uid is not None}
    taken |= {account_gid(account) for account in accounts_of(people)}
    highest = max((uid for uid in taken if FIRST_UID <= uid < _FIRST_GID), default=FIRST_UID - 1)
    order = (*range(highest + 1, _FIRST_GID), *range(FIRST_UID, _FIRST_GID), *range(LEAST_UID, MOST_UID + 1))
    return int(next(uid for uid in order if uid not in taken))


def read_people(told: object, root: Path) -> tuple[tuple[PersonSpec, ...], list[str]]:
    """People as a spec has them, from elsewhere, such as Ansible's variables; and all that is wrong with them."""
    found, faults = find_faults(ClusterSpec, {"people": told}, file="people")
    if faults:
        return (), [str(fault) for fault in faults]
    spec = ClusterSpec(people=tuple(found["people"]))
    rules = (rule for rule in PEOPLE_RULES if rule.reads[0] == "people")
    problems = [problem for rule in rules for problem in rule.find(spec, root)]
    if problems:
        return (), [f"{where}: {message} (allowed: {allowed})" for where, message, allowed in problems]
    return spec.people, []


def _names(spec: ClusterSpec, _root: Path) -> Found:
    first: dict[str, int] = {}
    accounts = accounts_of(spec.people)
    for at, person in enumerate(spec.people):
        where = f"people[{at}].name"
        if problem := find_name_problem(person.name):
            yield where, f"{person.name!r} {problem}", "another name"
        elif person.name in first:
            yield where, f"{person.name!r} is the name of people[{first[person.name]}]", "another name for each person"
        elif person.name in accounts:
            yield where, f"{person.name!r} is the name of an account, too: it would be two groups", "another name"
        first.setdefault(person.name, at)


def _uids(spec: ClusterSpec, _root: Path) -> Found:
    first: dict[int, int] = {}
    gids = {account_gid(account): account for account in accounts_of(spec.people)}
    for at, person in enumerate(spec.people):
        where, free = f"people[{at}].uid", "another number for each person"
        if person.uid is None:
            continue
        if person.uid in first:
            yield where, f"{person.uid} is the number of people[{first[person.uid]}]", free
        elif person.uid in gids:
            yield where, f"{person.uid} is the number of the group of account {gids[person.uid]}", free
        first.setdefault(person.uid, at)


def _directory(spec: ClusterSpec, _root: Path) -> Found:
    for at, person in enumerate(spec.people):
        if person.in_directory and spec.sssd is None:
            yield f"people[{at}]", "has no uid", f"{LEAST_UID} to {MOST_UID}; with `sssd` also none, for its people"
        elif person.in_directory and person.keys:
            yield f"people[{at}].keys", "are of somebody without uid, whose keys the directory has", "[], or a uid"


def limits_people(people: Sequence[PersonSpec]) -> bool:
    """Whether Slurm is to hold anybody to a limit; then it takes jobs of those alone who are in its accounting."""
    return any(person.gpus is not None for person in people)


def _accounts(spec: ClusterSpec, _root: Path) -> Found:
    gids: dict[int, str] = {}
    for at, person in enumerate(spec.people):
        account, where = person.account, f"people[{at}].account"
        if account is None:
            continue
        other = gids.setdefault(account_gid(account), account)
        if problem := find_name_problem(account):
            yield where, f"{account!r} {problem}", "another name"
        elif other != account:
            yield where, f"the group of {account!r} would have the number of that of {other!r}", "another name"


def _keys(spec: ClusterSpec, _root: Path) -> Found:
    for at, person in enumerate(spec.people):
        if len(person.keys) > MOST_KEYS:
            yield f"people[{at}].keys", f"has {len(person.keys)} keys", f"{MOST_KEYS} or fewer"
        for number, key in enumerate(person.keys[:MOST_KEYS]):
            if problem := find_key_problem(key):
                yield f"people[{at}].keys[{number}]", problem, KEY_FORM


def _count(spec: ClusterSpec, _root: Path) -> Found:
    if len(spec.people) > MOST_PEOPLE:
        yield "people", f"has {len(spec.people)} people", f"{MOST_PEOPLE} or fewer"


def _login(spec: ClusterSpec, _root: Path) -> Found:
    login, prefix, count = spec.slurm.login, spec.nodes.prefix, spec.nodes.count
    number = None if login is None else number_of_name(login, prefix=prefix)
    if number is not None and number >= count:
        nodes = f"{node_name(prefix, 0)} to {node_name(prefix, count - 1)}, or " if count else ""
        yield "slurm.login", f"there is no node {login}", f"{nodes}the name of a node of create-node, such as login"


PEOPLE_RULES: Final[tuple[SpecRule, ...]] = (
    *(SpecRule(reads=("people",), find=find) for find in (_count, _names, _uids, _accounts, _keys)),
    SpecRule(reads=("people", "sssd"), find=_directory),
    SpecRule(reads=("slurm.login", "nodes.count", "nodes.prefix"), find=_login),
)
