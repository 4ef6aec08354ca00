"""The people of a cluster in Slurm's accounting: each has an account there, and a limit of GPUs at once.

Slurm holds people to these limits, and says of a job why it waits (AssocGrpGRES).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.cluster import services
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt, few
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.waiting import Wait
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.spec.people import PEOPLE_GROUP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.cluster_spec import PersonSpec

    Associations = Mapping[tuple[str, str], str]

_LOOK_S: Final = 15.0
_EACH_S: Final = 1.0
_BACK_S: Final = 30.0
_WORDS: Final = 3
# What cannot be recorded here is not asked for: the controller's image may be older than accounting is
_LOOK: Final = '[ -e "$1" ] || exit 0; exec sacctmgr -nP show assoc cluster="$2" format=account,user,grptres'
# An account that somebody leaves stays while they have jobs there: that keeps nobody else from leaving
CHANGE: Final = """while IFS= read -r words; do
  sacctmgr -iQ $words </dev/null || case $words in delete*) left=1 ;; *) exit 1 ;; esac
done
exit ${left-0}"""
_GPUS: Final = "gres/gpu"
_NO_LIMIT: Final = "-1"
_SHOW_NUMBERS: Final = ("show", "assoc_mgr", "flags=users")
_NUMBER: Final = re.compile(r"^UserName=([a-z][a-z0-9_-]{0,31})\((\d{1,10})\) ", re.MULTILINE)
_ACTIVE_JOB: Final = re.compile(r"JobID = (\d{1,10})\s[^\n]*?U = ([a-z][a-z0-9_-]{0,31})", re.ASCII)
_NAMED: Final = 10
_DIRECTORY: Final = 'getent -s sss passwd "$@" | cut -d: -f1,3'
_IN_DIRECTORY: Final = re.compile(r"^([a-z][a-z0-9_-]{0,31}):(\d{1,10})$", re.ASCII | re.MULTILINE)
_UNKNOWN: Final = "4294967294"  # NO_VAL: slurmctld looks again


def parse_associations(text: str) -> dict[tuple[str, str], str]:
    """How many GPUs each may have at once, by account and user; those of accounts have no user.

    Raises:
        ValueError: It is not what `sacctmgr` prints.
    """
    found = {}
    for line in text.splitlines():
        words = line.split("|")
        if len(words) != _WORDS:
            raise ValueError(f"{len(words)} columns instead of {_WORDS}")
        account, user, limits = words
        gpus = dict(limit.partition("=")[::2] for limit in limits.split(",") if limit)
        found[account, user] = gpus.get(_GPUS, _NO_LIMIT)
    return found


def plan_associations(cluster: str, people: Sequence[PersonSpec], seen: Associations) -> tuple[str, ...]:
    """What `sacctmgr` is to be told, a line for each difference; of who is no person nothing is changed.

    Accounts that people leave come last, and have the new limit before: Slurm refuses while jobs of theirs are there.
    """
    lacking = sorted({_account_of(person) for person in people} - {account for account, _ in seen})
    lines = [f"add account {name} cluster={cluster} description={name} organization={name}" for name in lacking]
    leaving = list[str]()
    for person in people:
        account, name = _account_of(person), person.name
        where = f"where name={name} cluster={cluster}"
        if (account, name) not in seen:
            lines.append(f"add user {name} cluster={cluster} account={account}")
        others = sorted(other for other, user in seen if user == name and other != account)
        if others:
            lines.append(f"modify user {where} set defaultaccount={account}")
        gpus = _NO_LIMIT if person.gpus is None else str(person.gpus)
        lines += [
            f"modify user {where} account={one} set GrpTRES={_GPUS}={gpus}"
            for one in (account, *others)
            if seen.get((one, name), _NO_LIMIT) != gpus
        ]
        leaving += [f"delete user {where} account={other}" for other in others]
    return (*lines, *leaving)


def ensure_associations(driver: Driver, controller: str, cluster: str, people: Sequence[PersonSpec]) -> tuple[str, ...]:
    """Have the accounting know them; nothing where the controller's node records no jobs.

    Returns:
        What it was told.

    Raises:
        EngineError: Slurm's accounting refused, or what it says is none.
        TimedOut: It does not answer.
    """
    look = ["sh", "-c", _LOOK, "sh", slurm_path("slurmdbd"), cluster]
    said = driver.run(controller, look, timeout_s=_LOOK_S)
    try:
        seen = parse_associations(said.stdout)
    except ValueError as error:
        raise _refused(controller, str(error)) from error
    if said.exit_code:
        raise _refused(controller, said.stderr)
    lines = plan_associations(cluster, people, seen) if seen else ()
    if lines:
        stdin = "".join(f"{line}\n" for line in lines).encode()
        limit_s = _LOOK_S + len(lines) * _EACH_S
        done = driver.run(controller, ["sh", "-c", CHANGE], stdin=stdin, timeout_s=limit_s)
        if done.exit_code:
            raise _refused(controller, f"{done.stderr}\n{done.stdout}")
    return lines


def find_renumbered(driver: Driver, controller: str, people: Sequence[PersonSpec]) -> tuple[str, ...]:
    """Whom slurmctld knows by another number than theirs: it looks for numbers of new people, and when it starts.

    Raises:
        EngineError: It does not say what it knows.
        TimedOut: It does not answer.
    """
    said = driver.run(controller, ["scontrol", *_SHOW_NUMBERS], timeout_s=_LOOK_S)
    if said.exit_code:
        raise EngineError(
            "Slurm's controller does not say which numbers it has for the people of the cluster",
            evidence=excerpt((said.stderr or said.stdout).strip() or f"exit status {said.exit_code}", LINE),
            fix=f"gpuprov exec {controller} -- scontrol {' '.join(_SHOW_NUMBERS)}",
        )
    known = dict(_NUMBER.findall(said.stdout))
    settled = {one.name: str(one.uid) for one in people if not one.in_directory}
    told = _numbers_in_directory(driver, controller, [one.name for one in people if one.in_directory])
    wrong = [name for name, uid in settled.items() if known.get(name, _UNKNOWN) not in (_UNKNOWN, uid)]
    return (*wrong, *(name for name, uid in told.items() if known.get(name, uid) != uid))


def _numbers_in_directory(driver: Driver, controller: str, names: Sequence[str]) -> dict[str, str]:
    """Those of people whom the directory knows now; nobody where it does not answer.

    If it did not know somebody before, slurmctld refuses their jobs until it looks again.
    """
    if not names:
        return {}
    said = driver.run(controller, ["sh", "-c", _DIRECTORY, "sh", *names], timeout_s=_LOOK_S)
    return {name: uid for name, uid in _IN_DIRECTORY.findall(said.stdout) if name in names}


def relearn_numbers(driver: Driver, controller: str, people: Sequence[PersonSpec]) -> None:
    """Start slurmctld again if it has a number of somebody wrong, else Slurm refuses their jobs; jobs go on meanwhile.

    Raises:
        EngineError: It does not say what it knows, or did not come back.
        TimedOut: It does not answer.
    """
    if not find_renumbered(driver, controller, people):
        return
    services.restart_well(driver, controller, "slurmctld")
    wait = Wait(
        what="slurmctld to answer",
        timeout_s=scaled_limit_s(_BACK_S),
        fix=services.status_command(driver, controller, "slurmctld"),
    )
    wait.until(lambda: driver.run(controller, ["sinfo", "-h"], timeout_s=_LOOK_S).exit_code, lambda code: not code)


def _refused(controller: str, said: str) -> EngineError:
    jobs = _ACTIVE_JOB.findall(said)
    if jobs:
        return EngineError(
            "Slurm's accounting keeps people in an account that they leave until their jobs there have ended",
            evidence=few([f"{job} of {user}" for job, user in jobs], _NAMED),
            fix=f"wait until these have ended: gpuprov exec {controller} -- squeue",
        )
    return EngineError(
        "Slurm's accounting does not take the people of the cluster",
        evidence=excerpt(said.strip() or "it says nothing", LINE),
        fix=f"gpuprov exec {controller} -- sacctmgr show assoc",
    )


def _account_of(person: PersonSpec) -> str:
    return person.account or PEOPLE_GROUP
