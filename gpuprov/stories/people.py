"""`person list`, `add` and `rm`: who has an account in a cluster's nodes; the spec has them, and `cluster up` acts."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.excerpt import excerpt, few
from gpuprov.core.names import name_cluster
from gpuprov.core.nearest import ask_back
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.done import Done
from gpuprov.fleet.recorded_spec import find_recorded
from gpuprov.lifecycle.cluster_order import ClusterOrder
from gpuprov.lifecycle.people import cancel_jobs_of, find_jobs_of
from gpuprov.roles.registry import role_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import LEAST_UID, MOST_UID, PersonSpec
from gpuprov.shapes.people import Person
from gpuprov.spec.people import KEY_FORM, accounts_of, find_key_problem, find_name_problem, free_uid, home_of
from gpuprov.spec.shared_folder import folder_of
from gpuprov.stories.cluster_up import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.roles.departure import Job

    _Change = Callable[[Sequence[PersonSpec]], tuple[PersonSpec, ...]]

_LONGEST_KEY_FILE: Final = 64 * 1024
_NAMED: Final = 10  # jobs in an error


@dataclass(frozen=True, kw_only=True)
class NewPerson:
    """Somebody who is to get an account; None for a number that is free, and for what is not said.

    Attributes:
        without: What they are said not to have: `account`, `gpus`.
    """

    name: str
    uid: int | None = None
    keys: tuple[str, ...] = ()
    account: str | None = None
    gpus: int | None = None
    without: frozenset[str] = frozenset()


def list_people(fleet: Fleet, cluster: str) -> tuple[Person, ...]:
    """The people of a cluster, by name; changes nothing.

    Raises:
        UsageError: There is no such cluster.
    """
    spec = find_recorded(fleet, cluster, verb=f"{LIST} --cluster").spec
    shared = bool(folder_of(spec))
    return tuple(
        Person(
            name=person.name,
            uid=person.uid,
            account=person.account,
            gpus=person.gpus,
            keys=tuple(map(_fingerprint, person.keys)),
            home=None if person.in_directory and not shared else home_of(person.name, shared=shared),
        )
        for person in sorted(spec.people, key=lambda person: person.name)
    )


def add_person(fleet: Fleet, cluster: str, new: NewPerson) -> Done:
    """Give somebody an account in all nodes of a cluster; who has the same already keeps it.

    Where the cluster has a directory, whoever is given neither a number nor a key is somebody of the directory.

    Raises:
        UsageError: There is no such cluster, or somebody else has the name or the number.
    """
    spec = find_recorded(fleet, cluster, verb=f"{LIST} --cluster").spec
    if new.gpus is not None and role_of(spec.nodes.role).can_account and not spec.accounting:
        fleet.reporter.note(
            f"--gpus is only recorded: cluster {cluster} has no `accounting: on`, which Slurm needs for it"
        )

    def add(people: Sequence[PersonSpec]) -> tuple[PersonSpec, ...]:
        there = next((person for person in people if person.name == new.name), None)
        if there is not None:
            _refuse_other(there, new, cluster)
            return tuple(people)
        _refuse_double_name(new, people, cluster)
        uid = new.uid
        if uid is None and (new.keys or not spec.sssd):
            uid = free_uid(people)
        other = next((person.name for person in people if person.uid == uid and not person.in_directory), None)
        if other is not None:
            raise UsageError(
                f"the number {uid} is that of {other}",
                evidence=f"people of cluster {cluster}: {len(people)}",
                fix=name_cluster(f"omit --uid, or list the numbers: {LIST}", cluster),
            )
        person = PersonSpec(name=new.name, uid=uid, keys=new.keys, account=new.account, gpus=new.gpus)
        return (*people, person)

    return _change(fleet, cluster, add)


def change_person(fleet: Fleet, cluster: str, new: NewPerson) -> Done:
    """Give somebody other keys, another account or another limit; what is not said stays, and the number always.

    Raises:
        UsageError: There is no such cluster, or nobody of that name.
    """
    names = [person.name for person in find_recorded(fleet, cluster, verb=f"{LIST} --cluster").spec.people]
    if new.name not in names:
        raise UsageError(
            f"cluster {cluster} has nobody called {new.name}",
            evidence=f"its people: {', '.join(sorted(names)[:_NAMED]) or 'none'}{ask_back([new.name], names)}",
            fix=name_cluster(f"gpuprov person add {new.name}", cluster),
        )

    def change(people: Sequence[PersonSpec]) -> tuple[PersonSpec, ...]:
        _refuse_double_name(new, people, cluster)
        return tuple(changed(one, **_said(new)) if one.name == new.name else one for one in people)

    return _change(fleet, cluster, change)


LIST: Final = "gpuprov person list"


def remove_person(fleet: Fleet, cluster: str, name: str, *, reach: Callable[[], Driver], force: bool = False) -> Done:
    """Take somebody's account out of all nodes; their home stays, and nobody enters it.

    Args:
        reach: Opens the way to the node that takes the cluster's jobs.
        force: Whether jobs of theirs are cancelled.

    Raises:
        UsageError: There is no such cluster, or jobs of theirs run or wait.
        GpuprovError: Nobody can tell whether there are any.
    """
    recorded = find_recorded(fleet, cluster, verb=f"{LIST} --cluster").spec
    names = sorted(person.name for person in recorded.people)
    if name not in names:
        fleet.reporter.note(f"cluster {cluster} has nobody called {name}{ask_back([name], names)}")
    ended = _end_jobs(reach, cluster, name, force=force, reporter=fleet.reporter) if name in names else ()

    def remove(people: Sequence[PersonSpec]) -> tuple[PersonSpec, ...]:
        return tuple(person for person in people if person.name != name)

    done = _change(fleet, cluster, remove)  # where there is nobody, a run that was killed may have left accounts
    gone = next((person for person in recorded.people if person.name == name and not person.in_directory), None)
    if gone and recorded.share:
        again = name_cluster(f"gpuprov person add {name} --uid {gone.uid}", cluster)
        fleet.reporter.note(f"the home of {name} stays; to bring {name} back to it: {again}")
    return replace(done, outcome=Outcome(changed=(*ended, *done.outcome.changed)))


def _end_jobs(
    reach: Callable[[], Driver], cluster: str, name: str, *, force: bool, reporter: Reporter
) -> tuple[str, ...]:
    """Refuse to leave jobs of nobody behind, or cancel them; one line for each that was."""
    try:
        driver = reach()
        jobs = find_jobs_of(driver, cluster, name)
        if jobs and force:
            cancel_jobs_of(driver, cluster, name)
    except GpuprovError as error:
        if not force:
            raise
        reporter.warn(f"jobs of {name} were not cancelled: {error.what}: {error.evidence}")
        return ()
    if jobs and not force:
        raise UsageError(
            f"{name} has jobs in cluster {cluster}",
            evidence=_few(jobs),
            fix=name_cluster(f"gpuprov person rm {name}", cluster) + " --force  # cancels them",
        )
    return tuple(f"cancelled job {job}" for job in jobs)


def describe_jobs_of(reach: Callable[[], Driver], cluster: str, people: Sequence[str]) -> tuple[str, ...]:
    """That people have jobs, in a line; none where nobody of them has any.

    Args:
        reach: Opens the way to the node that takes the cluster's jobs.
    """
    try:
        jobs = find_jobs_of(reach(), cluster, *people) if people else ()
    except GpuprovError as error:
        return (f"whether they have jobs is not known: {error.what}",)
    return (f"their jobs: {_few(jobs)}",) if jobs else ()


def _few(jobs: Sequence[Job]) -> str:
    return few([*map(str, jobs)], _NAMED, between="; ")


def check_new_person(new: NewPerson) -> None:
    """Refuse what nobody can be called, have or belong to, before any engine is asked.

    Raises:
        UsageError: Why.
    """
    for what, name in (("name", new.name), ("account", new.account)):
        problem = find_name_problem(name) if name else ""
        if problem:
            raise UsageError(f"{name} {problem}", evidence=f"it is no {what} for people", fix="choose another one")
    if new.uid is not None and not LEAST_UID <= new.uid <= MOST_UID:
        raise UsageError(
            f"{new.uid} is no number for a person", evidence=f"allowed: {LEAST_UID} to {MOST_UID}", fix="omit --uid"
        )


def read_keys(path: Path) -> tuple[str, ...]:
    """The public keys in a file, such as ~/.ssh/id_ed25519.pub or somebody's authorized_keys.

    Raises:
        UsageError: It has none, or something else.
    """
    if find_key_problem(str(path)) == "":
        raise UsageError(
            "--key takes a file, not a key", evidence=excerpt(str(path)), fix="write it into a file: --key ann.pub"
        )
    beside = path.with_name(f"{path.name}.pub")
    fix = f"name a file with public keys: --key {beside if beside.is_file() else '~/.ssh/id_ed25519.pub'}"
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_KEY_FILE + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"the keys in {path} cannot be read", evidence=str(reason), fix=fix) from error
    if len(content) > _LONGEST_KEY_FILE:
        raise UsageError(f"{path} is no file with keys", evidence="it has more than 64 KiB", fix=fix)
    if find_key_problem(text).startswith("is a private key"):
        raise UsageError(f"{path} {find_key_problem(text)}", evidence="people give away public keys alone", fix=fix)
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    problems = [f"key {number} {problem}" for number, key in enumerate(keys, 1) if (problem := find_key_problem(key))]
    if problems or not keys:
        why = "; ".join(problems[:3]) or "it is empty"
        raise UsageError(f"{path} has what is no public key", evidence=f"{why}; allowed: {KEY_FORM}", fix=fix)
    return keys


def _change(fleet: Fleet, cluster: str, change: _Change) -> Done:
    done = bring_up(fleet, ClusterOrder(name=cluster, engine=fleet.engine or None, people=change))
    asked = len(done.spec.hosts) or 1
    lack = f"nodes there have the people of before: {name_cluster('gpuprov cluster up', cluster)}"
    return Done(outcome=done.outcome, failed=done.failed, asked=asked, lack=lack)


def _said(new: NewPerson) -> dict[str, Any]:
    """What was said of somebody, without the name."""
    told = {"uid": new.uid, "keys": new.keys or None, "account": new.account, "gpus": new.gpus}
    return {key: value for key, value in told.items() if value is not None or key in new.without}


def _refuse_double_name(new: NewPerson, people: Sequence[PersonSpec], cluster: str) -> None:
    """Of a person and an account: each has a group of its name."""
    accounts, names = accounts_of(people), [*(person.name for person in people), new.name]
    if new.account in names:
        raise UsageError(
            f"{new.account} is a person of cluster {cluster}, so no account can be called so",
            evidence="each person and each account has a group of that name in the nodes",
            fix="choose another name for the account, such as --account lab",
        )
    if new.name in accounts:
        raise UsageError(
            f"{new.name} is an account of cluster {cluster}, so nobody can be called so",
            evidence=f"people of this account: {', '.join(accounts[new.name][:_NAMED])}",
            fix="choose another name; for somebody of this account: "
            + name_cluster(f"gpuprov person add ann --account {new.name}", cluster),
        )


def _refuse_other(there: PersonSpec, new: NewPerson, cluster: str) -> None:
    differing = [key for key, value in _said(new).items() if value != getattr(there, key)]
    if not differing:
        return
    change = name_cluster(f"gpuprov person set {there.name}", cluster)
    raise UsageError(
        f"there is somebody called {there.name} already, with other {' and '.join(differing)}",
        evidence=f"number {there.uid or 'of the directory'}, account {there.account or 'none'}, {len(there.keys)} keys",
        fix=f"choose another name, or omit --uid and change the rest: {change}" if "uid" in differing else change,
    )


def _fingerprint(key: str) -> str:
    """As `ssh-keygen -l` shows it."""
    kind, raw, *_ = key.split(" ", 2)
    digest = hashlib.sha256(base64.b64decode(raw)).digest()
    return f"{kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
