"""The folder that nodes of all hosts share: proof that it is one folder, and not one on each host, in two questions.

Each host is asked what it sees at the path. The first one leaves a mark there for each of the others, which they must
see, and take away. Its name is new each time, so that no host's cache of names knows it as missing. This is done where
`FolderMarks` has not proven it without a question of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from gpuprov.cluster.share_look import (
    SHARING_HOSTS,
    ShareOrder,
    new_mark,
    refuse_different_accounts,
    refuse_other_folders,
)
from gpuprov.core.errors import UsageError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.documents.share_look import read_share_look
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each
from gpuprov.planes.over_hosts.shared_places import shared_places
from gpuprov.planes.registry import plane_of
from gpuprov.spanning.parts.over_hosts import QUESTION_S, part_error
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.shared_folder import ACCOUNT_UID, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.share_look import ShareLook
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.planes.over_hosts.shared_places import SharedPlace
    from gpuprov.spanning.parts.over_hosts import SpanningCluster
    from gpuprov.spec.models import ClusterSpec


def is_new_share(spec: ClusterSpec, seen: SpanningCluster, reporter: Reporter) -> bool:
    """Whether not all hosts have recorded the folder; where a new cluster has none, it is said how to have one."""
    if not folder_of(spec):
        if plane_of(spec.nodes.role).shares and seen.spec is None:
            reporter.note(
                f"the nodes of cluster {spec.name} share no folder, so `gpuprov submit` and `grid` cannot be used; to "
                f"have one, {SHARING_HOSTS} and name it: gpuprov cluster up --share FOLDER"
            )
        return False
    places = shared_places(spec)
    return not all(part.spec is not None and shared_places(part.spec) == places for part in seen.parts.values())


def prove_share(spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts) -> None:
    """Refuse folders that are not one and the same on all hosts that answer; nothing of them is changed.

    Raises:
        GpuprovError: With what each host sees, or why one cannot tell.
    """
    for where in shared_places(spec):
        _prove(where, spec, seen, hosts)


def refuse_unlike(looks: Mapping[str, ShareLook], where: SharedPlace, spec: ClusterSpec, seen: SpanningCluster) -> None:
    """Refuse hosts that do not see a folder of the same user, and what an earlier cluster has left for a service.

    Raises:
        UsageError: With what each host sees.
    """
    folder = where.folder
    refuse_different_accounts(looks, folder, spec.name, account=where.account)
    if where.uid != ACCOUNT_UID and seen.spec is None and not all(look.empty for look in looks.values()):
        raise UsageError(
            f"the folder {folder} is not empty, and cluster {spec.name} is new",
            evidence=f"it has what the {where.account} of an earlier cluster knew",
            fix=f"empty it, on {next(iter(looks))}: sudo find {folder} -mindepth 1 -delete; then run the same command "
            "again",
        )


def _prove(where: SharedPlace, spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts) -> None:
    first, *others = (host.name for host in spec.hosts if host.name in seen.parts)
    marks = {host: new_mark() for host in others or [first]}
    asking = _Asking(spec, seen, hosts, marks, where)
    with ExitStack() as unless_taken:
        unless_taken.callback(asking.forget, first)
        looks = asking.ask({first: "leave", **dict.fromkeys(others, "")})
        refuse_unlike(looks, where, spec, seen)
        if looks[first].mark:  # else it is somebody else's, which each host's plan says in words
            looks |= asking.ask(dict.fromkeys(marks, "take"))
            refuse_other_folders(looks, where.folder, spec.name, marks)
        unless_taken.pop_all()


class _Asking:
    """Questions about one folder, with a mark for each host that is to take one."""

    def __init__(
        self, spec: ClusterSpec, seen: SpanningCluster, hosts: Hosts, marks: Mapping[str, str], where: SharedPlace
    ) -> None:
        self._spec, self._seen, self._hosts, self._marks, self._where = spec, seen, hosts, marks, where

    def ask(self, acts: Mapping[str, str]) -> dict[str, ShareLook]:
        """What hosts see.

        Raises:
            GpuprovError: One of them does not say.
        """
        requests = {self._seen.machines[host]: self._request(host, act) for host, act in acts.items()}
        looks, refused = read_each(self._hosts.ask(requests), lambda told, host: read_share_look(told, host=host))
        error = part_error(
            refused, of=len(requests), what="nothing was changed: a folder cannot be shared", undone=True
        )
        if error:
            raise error
        return looks

    def forget(self, host: str) -> None:
        """Have the marks removed; a later one removes them where this fails."""
        self._hosts.ask({self._seen.machines[host]: self._request(host, "remove")})

    def _request(self, host: str, act: str) -> MemberRequest:
        marks = [self._marks[host]] if act == "take" else list(self._marks.values())
        return share_request(self._where, self._spec, self._seen.parts[host].engine, act, marks)


def share_request(where: SharedPlace, spec: ClusterSpec, engine: str, act: str, marks: Sequence[str]) -> MemberRequest:
    """The question to one host about a folder, and what it is to do with marks there."""
    order = ShareOrder(
        cluster=spec.name,
        spec=dump_spec(spec),
        engine=engine,
        act=act,
        marks=list(marks),
        folder=where.folder,
        uid=where.uid,
    )
    return MemberRequest(verb="share", document=asdict(order), total_s=scaled_limit_s(QUESTION_S))
