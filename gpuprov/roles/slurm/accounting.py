"""Slurm's accounting: slurmdbd and its database in the controller's node, with the figures in a folder of the host.

The database knows its one user, slurmdbd's account, by the socket that connects them: there is no password.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.cluster import services
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import LABEL_RECIPE, File
from gpuprov.provision.recipe_record import read_recipe_record
from gpuprov.render.templates import render
from gpuprov.roles.slurm.backup import controller_name
from gpuprov.roles.slurm.daemons import parse_errors
from gpuprov.roles.slurm.facts import ACCOUNTING_SCRIPT, NAME, slurm_facts, slurm_path
from gpuprov.spec.rule import SpecRule
from gpuprov.spec.shared_folder import ACCOUNTS, ServiceFolder, own_place
from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.provision.role_recipe import Init, RoleRecipe
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState
    from gpuprov.spec.rule import Found

ROLE: Final = "accounting"
_SAVE_BUDGET_S: Final = 600.0
PACKAGES: Final = ("mariadb-client", "mariadb-server-core", "slurmdbd")
# What runs for it, in the order of start
SERVICES: Final = ("slurm-database", "slurmdbd")
_KEY: Final = "accounting"
# What the script in the node says of what keeps slurmdbd from starting, and what helps, by its first word
WHY: Final = re.compile(r"^why ([a-z]{1,20}) ([ -~]{1,300})$", re.ASCII | re.MULTILINE)
FIXES: Final = {
    "elsewhere": "gpuprov cluster status    # what that node lacks, such as: gpuprov start NODE",
    "full": "make room on the disk of /srv on the controller's host: df -h /srv; recording goes on by itself",
    "newer": "nothing was changed; in the spec, an image.base that has it; then: gpuprov cluster up --renew",
    "unmounted": "gpuprov cluster up",
}
# How many messages of slurmctld wait for slurmdbd
QUEUE: Final = re.compile(r"^queue ([0-9]{1,10})$", re.ASCII | re.MULTILINE)
_LOG: Final = "/var/log/slurm/slurmdbd.log"
_LAST_WORDS: Final = (
    f"""printf 'why %s\\n' "$(sh {ACCOUNTING_SCRIPT} why 2>/dev/null)"; tail -n 50 {_LOG} 2>/dev/null"""
)
_LOOK_S: Final = 15.0
_STOP_BUDGET_S: Final = 120.0
_END_BUDGET_S: Final = 40.0
# A job that is being cancelled has SIGTERM, and 30 s later (KillWait) SIGKILL: its end is on record at once.
_END_ALL: Final = """\
for state in RUNNING SUSPENDED; do scancel --quiet --state=$state; done
for _ in $(seq 150); do
    [ -n "$(squeue --noheader --states=running,suspended)" ] || ! sdiag | grep -q '^DBD Agent queue size: *0$' || exit 0
    sleep 0.2
done
"""
# Debian's names of the packages; Ubuntu 22.04 has others, and a slurmdbd that nobody has tried
_SUITES: Final = tuple(suite for suite in SUITES if suite != "jammy")


def accounts_folder(cluster: str, *nodes: str) -> ServiceFolder:
    """The folder with the figures of a cluster, on the host of the node that has the controller."""
    return ServiceFolder(
        source=f"{own_place(cluster)}.accounting",
        uid=slurm_facts()["uid"],
        account=NAME,
        nodes=nodes,
        title="the figures of Slurm's accounting",
        target=ACCOUNTS,
        outlives=True,
    )


def with_accounting(recipe: RoleRecipe) -> RoleRecipe:
    """What goes into the image of Slurm's nodes where there is accounting."""
    return recipe.extended(ROLE, PACKAGES)


def has_accounting(spec: ClusterSpec, state: ClusterState, image: ImageState | None) -> bool:
    """Whether jobs are to be recorded, and the controller's image has what records them.

    The image of a cluster that exists lacks it until that node is replaced: until then, Slurm goes on without.

    Args:
        state: The cluster as it is.
        image: Of new nodes of Slurm; None where there are none.
    """
    if not spec.accounting:
        return False
    node = state.node(controller_name(spec))
    labels = node.labels if node else image.labels if image else None
    if labels is None:  # nothing is there yet, or it is on another host
        return True
    record = read_recipe_record(labels.get(LABEL_RECIPE, ""))
    return record is not None and {*PACKAGES} <= {*record.packages}


def render_slurmdbd(spec: ClusterSpec, address: str) -> File:
    """`slurmdbd.conf`; slurmdbd takes none that others may read."""
    text = render(
        get_asset("templates"),
        "slurm/slurmdbd.conf.j2",
        cluster=spec.name,
        host=controller_name(spec),
        address=address,
        folder=ACCOUNTS,
        people=bool(spec.people or spec.sssd),
    )
    uid = slurm_facts()["uid"]
    return File(path=slurm_path("slurmdbd"), content=text.encode(), mode=0o600, uid=uid, gid=uid)


def restart_accounting(driver: Driver, controller: str, renewed: Mapping[str, frozenset[str]], *, wanted: bool) -> None:
    """Have the controller's node record jobs, or stop it; slurmctld keeps what it cannot hand over meanwhile.

    Args:
        renewed: The files that nodes lacked.
        wanted: Whether it is to record them.

    Raises:
        EngineError: A service did not come back.
    """
    if not wanted:
        driver.run(controller, ["sh", "-c", stop_script(services.init_of(driver))], timeout_s=_STOP_BUDGET_S)
    elif slurm_path("slurmdbd") in renewed.get(controller, ()) or services.is_down(driver, controller, "slurmdbd"):
        try:
            for service in SERVICES:
                services.restart_well(driver, controller, service)
        except EngineError as error:
            raise _not_back(driver, controller, error) from error


def _not_back(driver: Driver, controller: str, error: EngineError) -> EngineError:
    """The error with what the node knows of the reason, and what slurmdbd has logged."""
    said = ""
    with suppress(EngineError, TimedOut):
        said = driver.run(controller, ["sh", "-c", _LAST_WORDS], timeout_s=_LOOK_S).stdout
    why = WHY.search(said)
    lines = (why[2] if why else "", *(f"slurmdbd: {line}" for line in parse_errors(said)), error.evidence)
    evidence, fix = "\n".join(filter(None, lines)), FIXES.get(why[1] if why else "", error.fix)
    return EngineError(error.what, evidence=evidence, fix=fix)


def end_all_jobs(driver: Driver, controller: str) -> None:
    """Have the end of every job on record before the cluster goes; where Slurm does not answer, they stay without."""
    with suppress(EngineError, TimedOut):
        driver.run(controller, ["sh", "-c", _END_ALL], timeout_s=_END_BUDGET_S)


def save_figures(driver: Driver, controller: str) -> None:
    """Have a copy of what is on record in the folder `saved` beside it.

    Raises:
        EngineError: The database did not answer.
    """
    saved = driver.run(
        controller, ["runuser", "-u", NAME, "--", "sh", ACCOUNTING_SCRIPT, "save"], timeout_s=_SAVE_BUDGET_S
    )
    if saved.exit_code:
        raise EngineError(
            "what Slurm's accounting has on record cannot be saved",
            evidence=saved.stderr.strip()[-400:] or f"exit {saved.exit_code}",
            fix=f"gpuprov exec {controller} -- sacctmgr show cluster",
        )


def stop_script(init: Init) -> str:
    """Shell lines by which a node records nothing any more; they do nothing on nodes that never did."""
    stop = {"systemd": "systemctl stop", "runit": "sv -w 50 down"}[init]
    conf = slurm_path("slurmdbd")
    return f"[ ! -e {conf} ] || {{ rm -f {conf}; {stop} {' '.join(reversed(SERVICES))}; }}"


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.accounting and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have none", f"false, or nodes.role: {NAME}"


def _base(spec: ClusterSpec, _root: Path) -> Found:
    if spec.accounting and spec.image.base in SUITES and spec.image.base not in _SUITES:
        yield _KEY, f"is not supported with image.base: {spec.image.base}", f"another base: {', '.join(_SUITES)}"


def _mounts(spec: ClusterSpec, _root: Path) -> Iterator[tuple[str, str, str]]:
    for index, mount in enumerate(spec.nodes.mounts if spec.accounting else ()):
        if PurePosixPath("/" + mount.target.lstrip("/")) == PurePosixPath(ACCOUNTS):
            yield f"nodes.mounts[{index}].target", f"{ACCOUNTS} is where Slurm's accounting is", "another folder"


RULES: Final = (
    SpecRule(reads=(_KEY, "nodes.role"), find=_role),
    SpecRule(reads=(_KEY, "image.base"), find=_base),
    SpecRule(reads=(_KEY, "nodes.mounts"), find=_mounts),
)
