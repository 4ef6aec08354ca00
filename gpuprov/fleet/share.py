"""The folder that nodes of all hosts share: proof that it is one folder, and not one on each host.

Each host is asked what it sees at the path. The first one leaves a mark there for each of the others, which they must
see, and take away. Its name is new each time, so that no host's cache of names knows it as missing.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.share_look import (
    MARK_DIGITS,
    SHARING_HOSTS,
    refuse_different_accounts,
    refuse_other_folders,
)
from gpuprov.core.errors import UsageError
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import part_error, read_each
from gpuprov.roles.registry import ROLES, role_of
from gpuprov.shapes.base import raw
from gpuprov.shapes.members import ShareLook
from gpuprov.shapes.orders import ShareOrder
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.orders import ShareAct


def prove_new_share(spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts, reporter: Reporter, *, said: bool) -> bool:
    """Prove a folder that not all hosts have recorded; returns whether that was done.

    Where none is shared, that is told unless somebody has `said` so.
    """
    folder = folder_of(spec)
    if not folder:
        if role_of(spec.nodes.role).shares and seen.spec is None and not said:
            reporter.note(
                f"the nodes of cluster {spec.name} share no folder, so `gpuprov submit` and `grid` cannot be used; to "
                f"have one, {SHARING_HOSTS} and name it: gpuprov cluster up --share FOLDER"
            )
        return False
    folders = _folders(spec)
    if all(part.spec is not None and _folders(part.spec) == folders for part in seen.parts.values()):
        return False
    prove_share(spec, seen, hosts)
    return True


def prove_share(spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts) -> None:
    """Refuse folders that are not one and the same on all hosts that answer; nothing of them is changed.

    Raises:
        GpuprovError: With what each host sees, or why one cannot tell.
    """
    for where in _folders(spec):
        _prove(where, spec, seen, hosts)


@dataclass(frozen=True, kw_only=True)
class _Where:
    """A folder, and the user of the nodes to whom it belongs."""

    folder: str
    uid: int
    account: str


def _folders(spec: ClusterSpec) -> list[_Where]:
    """The folder that all nodes share, and those beside it for services."""
    kept = [one for one in ROLES.service_folders(spec) if not one.outlives]  # those are one host's alone
    beside = [_Where(folder=one.source, uid=one.uid, account=one.account) for one in kept]
    shared = folder_of(spec)
    return [_Where(folder=shared, uid=ACCOUNT_UID, account=ACCOUNT), *beside] if shared else []


def _prove(where: _Where, spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts) -> None:
    folder = where.folder
    first, *others = (host.name for host in spec.hosts if host.name in seen.parts)
    marks = {host: secrets.token_hex(MARK_DIGITS // 2) for host in others or [first]}
    asking = _Asking(spec, seen, hosts, marks, where)
    with ExitStack() as unless_taken:
        unless_taken.callback(asking.forget, first)
        looks = asking.ask({first: "leave", **dict.fromkeys(others, "")})
        refuse_different_accounts(looks, folder, spec.name, account=where.account)
        if where.uid != ACCOUNT_UID and seen.spec is None and not all(look.empty for look in looks.values()):
            raise UsageError(
                f"the folder {folder} is not empty, and cluster {spec.name} is new",
                evidence=f"it has what the {where.account} of an earlier cluster knew",
                fix=f"empty it, on {first}: sudo find {folder} -mindepth 1 -delete; then run the same command again",
            )
        if looks[first].mark:  # else it is somebody else's, which each host's plan says in words
            looks |= asking.ask(dict.fromkeys(marks, "take"))
            refuse_other_folders(looks, folder, spec.name, marks)
        unless_taken.pop_all()


class _Asking:
    """Questions about one folder, with a mark for each host that is to take one."""

    def __init__(
        self, spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts, marks: Mapping[str, str], where: _Where
    ) -> None:
        self._spec, self._seen, self._hosts, self._marks, self._where = spec, seen, hosts, marks, where

    def ask(self, acts: Mapping[str, ShareAct]) -> dict[str, ShareLook]:
        """What hosts see.

        Raises:
            GpuprovError: One of them does not say.
        """
        requests = {self._seen.machines[host]: self._request(host, act) for host, act in acts.items()}
        looks, refused = read_each(self._hosts.ask(requests), partial(read_answer, ShareLook))
        error = part_error(
            refused, of=len(requests), what="nothing was changed: a folder cannot be shared", undone=True
        )
        if error:
            raise error
        return looks

    def forget(self, host: str) -> None:
        """Have the marks removed; a later one removes them where this fails."""
        self._hosts.ask({self._seen.machines[host]: self._request(host, "remove")})

    def _request(self, host: str, act: ShareAct) -> MemberRequest:
        order = ShareOrder(
            cluster=self._spec.name,
            spec=raw(dump_spec(self._spec)),
            engine=self._seen.parts[host].engine,
            act=act,
            marks=(self._marks[host],) if act == "take" else tuple(self._marks.values()),
            folder=self._where.folder,
            uid=self._where.uid,
        )
        return MemberRequest(order=order, total_s=scaled_limit_s(QUESTION_S))
