"""The folders of a host that nodes of all hosts share: a mark is left in them, and that of another host taken."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.share_look import ShareLook, act_on_share
from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.planes.registry import service_folders
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, folder_of

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.spec.models import ClusterSpec

_MARK_S: Final = 5.0  # of a question's 25, where a file server is away


@dataclass(frozen=True, kw_only=True)
class SharedPlace:
    """A folder, and the user of the nodes to whom it belongs."""

    folder: str
    uid: int
    account: str


def shared_places(spec: ClusterSpec) -> list[SharedPlace]:
    """The folder that all nodes share, and those beside it for services."""
    beside = [SharedPlace(folder=one.source, uid=one.uid, account=one.account) for one in service_folders(spec)]
    shared = folder_of(spec)
    return [SharedPlace(folder=shared, uid=ACCOUNT_UID, account=ACCOUNT), *beside] if shared else []


def leave_mark(spec: ClusterSpec, driver: Driver, host: Host, mark: str) -> dict[str, ShareLook]:
    """Leave a mark in each of the folders, and say what is seen there; those that cannot be looked at are left out."""
    return _act_on_each(spec, driver, host, "leave", mark)


def take_mark(spec: ClusterSpec, driver: Driver, host: Host, mark: str) -> bool:
    """Take a mark out of each of the folders; returns whether it was in all of them, and is gone."""
    looks = _act_on_each(spec, driver, host, "take", mark)
    folders = [place.folder for place in shared_places(spec)]
    return bool(folders) and all(folder in looks and looks[folder].mark == mark for folder in folders)


def _act_on_each(spec: ClusterSpec, driver: Driver, host: Host, act: str, mark: str) -> dict[str, ShareLook]:
    """What comes of it by folder, up to the first one with which it fails."""
    with suppress(GpuprovError):  # the request `share` says in words what is wrong
        places = {
            place.folder: place.uid if spec.nodes.privileged else driver.owner_on_host(place.uid)
            for place in shared_places(spec)
        }

        def on_each() -> list[dict[str, Any]]:
            told = []
            with suppress(GpuprovError):
                for folder, account in places.items():
                    told.append(asdict(act_on_share(host.folders, folder, account, act, [mark])))
            return told

        told = host.folders.bounded(on_each, limit_s=scaled_limit_s(_MARK_S)) if places else []
        return {folder: ShareLook(**look) for folder, look in zip(places, told, strict=False)}
    return {}
