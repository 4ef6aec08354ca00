"""The folder that nodes of a cluster share: whether it can be used, and how it comes to be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from gpuprov.cluster.share_look import SHARING_HOSTS
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_ACCOUNT
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, PLACE, SHARED, folder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.observed import Observed
    from gpuprov.core.rollback import Rollback
    from gpuprov.machine.base import Host
    from gpuprov.machine.folders import FolderLook

AS_ROOT = "run the command as root"


@dataclass(frozen=True, kw_only=True)
class SharePlan:
    """The folder, and what has to be done for it.

    Attributes:
        folder: On the host; empty where the cluster has none.
        owner: The user of the host to whom it has to belong.
        act: `make` it, or `take` an empty one of root; nothing where it is as it has to be.
        used: Whether something is in it already.
    """

    folder: str = ""
    owner: int = 0
    act: Literal["make", "take", ""] = ""
    used: bool = False

    def lines(self) -> tuple[str, ...]:
        """One line if there is something to do."""
        words = {"make": f"create folder {self.folder} for all nodes", "take": f"share the empty folder {self.folder}"}
        return (words[self.act],) if self.act else ()

    def reuse_note(self) -> str:
        """For a new cluster: that it finds what an earlier one left; empty where there is nothing."""
        return f"{self.folder} is not empty: the jobs and files in it stay" if self.used else ""


def look_and_plan_share(observed: Observed, spec: ClusterSpec, designs: Iterable[NodeDesign]) -> SharePlan:
    """Look at the folder that a spec asks for; changes nothing.

    Args:
        observed: The cluster as it is, and what is around it.
        spec: What is asked for.
        designs: The nodes as they are to be.

    Raises:
        UsageError: The folder cannot be used, it is another cluster's, or a node cannot share it.
        HostNotReady: Only root can make it.
        EngineError: The engine does not report the account that has to own it.
    """
    folder = folder_of(spec)
    if not folder:
        return SharePlan()
    host, state = observed.host, observed.state
    mapped = observed.driver.owner_on_host(ACCOUNT_UID)
    owner = ACCOUNT_UID if spec.nodes.privileged else mapped
    sharing = [design for design in designs if SHARED in [mount.target for mount in design.mounts]]
    if mapped != ACCOUNT_UID:
        _refuse_mixed([design.name for design in sharing if design.privileged != spec.nodes.privileged], folder, owner)
    present = [node for design in sharing if (node := state.node(design.name)) and node.complete]
    again = f"create the nodes again: gpuprov cluster down {state.name}; then run the same command again"
    require_account([node.name for node in present], [node.labels for node in present], fix=again)
    seen = host.folders.look(folder)
    if isinstance(state.recorded, ClusterSpec) and folder_of(state.recorded) == folder:
        if seen.kind == "hidden":  # from who is not root, and was not when it was made
            return SharePlan(folder=folder, owner=owner)
    else:
        observed.around.refuse_shared_by_others(folder)
    if seen.kind == "absent" and spec.hosts:  # one that is made here would be this host's alone
        what = f"the folder {folder} cannot be shared by nodes of cluster {spec.name}"
        fix = f"{SHARING_HOSTS}; then run the same command again"
        raise UsageError(what, evidence=f"{seen.at} does not exist on {host.name}", fix=fix)
    act = judge_folder(seen, folder, owner)
    return SharePlan(folder=folder, owner=owner, act=act, used=not act and not seen.empty)


def ensure_share(host: Host, plan: SharePlan, rollback: Rollback) -> tuple[str, ...]:
    """Do what was planned, and return a line for it; a folder that was made is removed on failure, if it is empty."""
    if plan.act == "make":
        rollback.add(f"the folder {plan.folder}", partial(host.folders.drop, plan.folder))
    if plan.act:
        host.folders.make(plan.folder, owner=plan.owner)
    return plan.lines()


def judge_folder(seen: FolderLook, folder: str, owner: int, *, account: str = ACCOUNT) -> Literal["make", "take", ""]:
    """What has to be done for a folder to be shared: a pure function of what stands at its path.

    Args:
        seen: What stands there.
        folder: The path.
        owner: The user of the host to whom it has to belong.
        account: The same user in the nodes.

    Raises:
        UsageError: Something else stands there, or it is somebody else's.
        HostNotReady: Only root can do it.
    """
    what = f"the folder {folder} cannot be shared by nodes"
    if seen.kind == "link":
        fix = f"use the folder itself; where the link leads: readlink -f {seen.at}"
        raise UsageError(what, evidence=f"{seen.at} is a symbolic link", fix=fix)
    if seen.kind == "file":
        raise UsageError(what, evidence=f"{seen.at} is not a folder", fix="use another folder")
    if seen.kind == "hidden":
        raise HostNotReady(what, evidence=f"this user may not read {seen.at}", fix=AS_ROOT)
    new = seen.kind == "absent"
    if seen.kind == "folder" and seen.owner == owner:
        return ""
    if not new and not (seen.owner == 0 and seen.empty):
        raise UsageError(
            what,
            evidence=f"it belongs to user {seen.owner} of the host; user {owner} is the account {account} of the nodes",
            fix=f"use another folder; or let {'jobs' if account == ACCOUNT else account} have it with its contents: "
            f"sudo chown -R {owner}:{owner} {folder}",
        )
    if not seen.can_give:
        give = f"sudo install -d -m 0750 -o {owner} -g {owner} {folder}; then run the same command again"
        raise HostNotReady(
            what,
            evidence=f"it {'does not exist' if new else 'belongs to root'}; only root can give it to user {owner}",
            fix=AS_ROOT if folder.startswith(f"{PLACE}/") else give,  # whom nobody else can enter
        )
    return "make" if new else "take"


def _refuse_mixed(names: list[str], folder: str, owner: int) -> None:
    if names:
        raise UsageError(
            f"{fold(names)} cannot share the folder {folder} with the other nodes",
            evidence=f"on this kernel, privileged nodes have other users; the folder belongs to user {owner}",
            fix="omit --privileged, or set nodes.privileged for all nodes; or use --role plain for such a node",
        )


def require_account(names: Sequence[str], labels: Iterable[Mapping[str, str]], *, fix: str) -> None:
    """Refuse nodes that are to share a folder and in which nobody could write.

    Args:
        names: The nodes.
        labels: Of each, or of what each is made from.
        fix: What to do.

    Raises:
        UsageError: Their image has no account; an earlier gpuprov built it.
    """
    without = [name for name, known in zip(names, labels, strict=True) if known.get(LABEL_ACCOUNT) != str(ACCOUNT_UID)]
    if without:
        raise UsageError(
            f"{fold(without)} cannot share a folder",
            evidence=f"the image has no account {ACCOUNT} with the number {ACCOUNT_UID}; an older version built it",
            fix=fix,
        )
