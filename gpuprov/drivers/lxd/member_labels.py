"""Labels of networks, for each member of an engine's cluster: there, one network is on all members and has one config.

Each member keeps its own in a profile that no instance uses, so that none writes over another's, and so that they can
be changed while other members are unreachable. A network of which no member has a profile has the labels in its config:
those that it was made with, or all of them where it was made before the engine was in a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_HOSTS
from gpuprov.drivers.lxd import documents
from gpuprov.drivers.lxd.api import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.lxd.api import Document, LxdApi

    Labels = Mapping[str, str]
    Kept = Mapping[str, Mapping[str, Labels]]  # by network and member

NETWORK, MEMBER = "user.gpuprov.of-network", "user.gpuprov.of-member"


def read_kept(api: LxdApi) -> Kept:
    """The labels that members keep; none where the engine is in no cluster."""
    return parse_kept(api.get("profiles", recursion=1)) if api.member else {}


def parse_kept(profiles: Iterable[Mapping[str, Any]]) -> Kept:
    """The same from all profiles of an engine; copies that somebody made of ours are left out."""
    kept: dict[str, dict[str, Labels]] = {}
    for profile in profiles:
        config = profile.get("config") or {}
        network, member = config.get(NETWORK, ""), config.get(MEMBER, "")
        if network and member and profile["name"] == profile_name(network, member):
            labels = documents.parse_labels(
                {key: value for key, value in config.items() if key not in (NETWORK, MEMBER)}
            )
            kept.setdefault(network, {})[member] = labels
    return kept


def profile_name(network: str, member: str) -> str:
    """Of the profile in which a member keeps its labels of a network."""
    return f"gpuprov-{network}-{short(fingerprint([network, member]))}"


def as_member_sees(document: Mapping[str, Any], kept: Kept, member: str) -> Document:
    """A network's document with the labels that it has for a member, in place of those in its config."""
    of_members = _labels_of(document, kept)
    if not of_members:
        return dict(document)
    others = {key: value for key, value in document["config"].items() if not _is_label(key)}
    return {**document, "config": others | documents.label_config(of_members.get(member, {}))}


def _labels_of(document: Mapping[str, Any], kept: Kept) -> Mapping[str, Labels]:
    """By member; none of a network that gpuprov did not make, whatever a killed run has left."""
    made_for = documents.parse_labels(document.get("config") or {}).get(LABEL_CLUSTER)
    return kept.get(document["name"], {}) if made_for else {}


def _is_label(key: str) -> bool:
    return key.startswith("user.gpuprov.") and key != documents.SELF


def joinable_by(document: Mapping[str, Any], kept: Kept, member: str) -> str:
    """The cluster over hosts for which other members have a network that this one does not have; else empty."""
    of_members = _labels_of(document, kept)
    if member in of_members:
        return ""
    clusters = {labels.get(LABEL_CLUSTER, "") if labels.get(LABEL_HOSTS) else "" for labels in of_members.values()}
    return clusters.pop() if len(clusters) == 1 else ""


def keep_labels(api: LxdApi, network: str, labels: Labels) -> None:
    """Record this member's labels of a network, all of them."""
    name = profile_name(network, api.member)
    config = {**documents.label_config(labels), NETWORK: network, MEMBER: api.member}
    body = {"description": f"gpuprov: labels of network {network} on {api.member}", "config": config, "devices": {}}
    if _has_profile(api, name):
        api.send("put", "profiles", name, body=body)
    else:
        api.send("post", "profiles", body={"name": name, **body})


def drop_labels(api: LxdApi, network: str) -> None:
    """Forget this member's labels of a network; no change where it has none."""
    name = profile_name(network, api.member)
    if _has_profile(api, name):
        api.delete("profiles", name)


def _has_profile(api: LxdApi, name: str) -> bool:
    try:
        api.get("profiles", name)
    except NotFound:
        return False
    return True
