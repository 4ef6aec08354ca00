"""What a host sees where the nodes of all hosts are to share a folder, and whether all of them see one folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.machine.folders import MARK
from gpuprov.shapes.base import text_of
from gpuprov.shapes.members import ShareLook
from gpuprov.spec.serialize import load_spec_json
from gpuprov.spec.shared_folder import ACCOUNT, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.machine.base import Host
    from gpuprov.shapes.orders import ShareOrder

MARK_DIGITS: Final = 32
SHARING_HOSTS: Final = "mount one folder of a network file system (NFS, CephFS, ...) at that path on every host"


def refuse_other_folder(order: ShareOrder, shared: str) -> None:
    """Refuse a folder that has nothing to do with the cluster.

    Raises:
        UsageError: It is such.
    """
    if not re.fullmatch(re.escape(shared) + r"(\.[a-z]{1,32})?", order.folder, re.ASCII):
        raise UsageError(
            "the request `share` cannot be served",
            evidence=f"the folder {order.folder!r:.80} does not belong to cluster {order.cluster}",
            fix=f"{shared}, or one beside it",
        )


def look_at_share(order: ShareOrder, host: Host) -> ShareLook:
    """What this host sees, and what comes of the marks.

    A mark is left only where the folder is the account's already, or an empty one of root: in any other one, nothing is
    gpuprov's to write.

    Raises:
        UsageError: The folder has nothing to do with the cluster.
        EngineError: The engine does not report the account's number.
        HostNotReady: A mark cannot be written or read.
    """
    spec = load_spec_json(text_of(order.spec), cluster=check_cluster_name(order.cluster))
    refuse_other_folder(order, folder_of(spec))
    folder = order.folder
    account = order.uid if spec.nodes.privileged else host.open(order.engine).owner_on_host(order.uid)
    seen = host.folders.look(folder)
    text = ""
    if seen.kind == "folder" and (seen.owner == account or (seen.owner == 0 and (seen.empty or order.act != "leave"))):
        marks = {f"{MARK}{mark}": mark for mark in order.marks}
        if order.act == "leave":
            host.folders.leave_marks(folder, marks)
            text = order.marks[0]
        elif order.act == "take":
            text = host.folders.read_mark(folder, next(iter(marks)))
        if order.act == "remove" or (order.act == "take" and text):
            for name in marks:
                host.folders.remove_mark(folder, name)
    return ShareLook(
        host=host.name,
        kind=seen.kind,
        at=seen.at,
        owner=seen.owner,
        account=account,
        filesystem=seen.filesystem,
        mark=text,
        empty=seen.empty,
    )


def refuse_different_accounts(
    looks: Mapping[str, ShareLook], folder: str, cluster: str, *, account: str = ACCOUNT
) -> None:
    """Refuse hosts of which one has no such folder, or on which the account of jobs is another user.

    Raises:
        UsageError: With what each host sees.
    """
    if any(look.kind != "folder" for look in looks.values()):
        raise UsageError(
            f"the nodes of cluster {cluster} cannot share the folder {folder}: not every host has it",
            evidence=_told(looks),
            fix=f"{SHARING_HOSTS}, as root; then run the same command again",
        )
    users = {look.account for look in looks.values()}
    if len(users) > 1:
        raise UsageError(
            f"the nodes of cluster {cluster} cannot share the folder {folder}: their account {account} is not the same "
            "user on all hosts",
            evidence="\n".join(f"{host}: {account} is user {look.account}" for host, look in looks.items()),
            fix="set nodes.privileged to true, which Docker does not have; or give root the same first number in "
            "/etc/subuid and /etc/subgid of all hosts, and restart their engines",
        )


def refuse_other_folders(looks: Mapping[str, ShareLook], folder: str, cluster: str, marks: Mapping[str, str]) -> None:
    """Refuse hosts that do not see the mark that one of them has left for each.

    Raises:
        UsageError: With what each host sees.
    """
    blind = [host for host, mark in marks.items() if looks[host].mark != mark]
    if blind:
        raise UsageError(
            f"{folder} is not the same folder on all hosts of cluster {cluster}",
            evidence=f"{_told(looks)}\na file that the first one writes there is not seen on {', '.join(blind)}",
            fix=f"{SHARING_HOSTS}; to look: findmnt -T {folder}",
        )


def _told(looks: Mapping[str, ShareLook]) -> str:
    return "\n".join(f"{host}: {look}" for host, look in looks.items())
