"""Which nodes were made from an older image than they would be made from now, and what that lacks; changes nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.order_label import read_order
from gpuprov.cluster.services import init_of
from gpuprov.core.errors import HostNotReady
from gpuprov.core.fingerprint import SHORT_LENGTH, short
from gpuprov.core.names import fold, name_cluster
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_FINGERPRINT, LABEL_IMAGE, LABEL_RECIPE, LABEL_ROLE
from gpuprov.provision.recipe import recipe_for
from gpuprov.provision.recipe_record import describe_lack, differences, read_recipe_record, record_recipe
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.wheels import CudaWheels
    from gpuprov.shapes.records import RecipeRecord

UNKNOWN: Final = "made by an earlier gpuprov, which did not record what is in it"
# Newer packages for a newer driver are no reason to replace a node: drivers run older ones.
_WHEELS: Final[Mapping[str, tuple[CudaWheels, ...]]] = {
    "none": ("none", "cu12", "cu13"),
    "simulated": ("none",),
}
_REAL: Final[tuple[CudaWheels, ...]] = ("cu12", "cu13")


def find_older(driver: Driver, state: ClusterState, spec: ClusterSpec | None = None) -> dict[str, str]:
    """What the image of each node lacks that has an older one; nodes with an image of their own have none that is old.

    Args:
        spec: What is asked for; None for what is recorded. Of what cannot be read, nothing is older.
    """
    wanted = spec or state.recorded
    if not isinstance(wanted, ClusterSpec):
        return {}
    older: dict[str, str] = {}
    nodes = [node for node in state.nodes if node.complete and not _has_its_own(node)]
    newest = {image.labels.get(LABEL_FINGERPRINT, ""): image.name for image in driver.list_images()} if nodes else {}
    for role in sorted({node.labels.get(LABEL_ROLE, "") for node in nodes}):
        with suppress(HostNotReady):  # a role of the user's own that is not there any more: it cannot be compared
            records = _records(driver, wanted, role)
            mine = [node for node in nodes if records and node.labels.get(LABEL_ROLE, "") == role]
            words = {node.name: _judge(node, records, newest) for node in mine}
            older |= {name: lack for name, lack in words.items() if lack}
    return dict(sorted(older.items()))


def current_fingerprints(driver: Driver) -> set[str]:
    """Those of the recipes that images of all roles have without packages of the user's."""
    from gpuprov.roles.registry import ROLES

    records = (_records(driver, ClusterSpec(), name) for name in ROLES)
    return {record.fingerprint for of_role in records for record in of_role.values()}


def older_lines(older: Mapping[str, str]) -> tuple[str, ...]:
    """One line for all nodes whose image lacks the same."""
    names: dict[str, list[str]] = {}
    for name, lack in older.items():
        names.setdefault(lack, []).append(name)
    return tuple(f"{fold(alike)}: image is older: {lack}" for lack, alike in names.items())


def older_notes(older: Mapping[str, str], cluster: str, *, spans: bool = False) -> tuple[str, ...]:
    """The same, and how such nodes are replaced, also where the cluster spans hosts; nothing where there are none."""
    way = f"to replace nodes with an older image, one after the other: {replacing_command(cluster, spans=spans)}"
    return (*older_lines(older), way) if older else ()


def replacing_command(cluster: str, *, spans: bool) -> str:
    """What is typed to replace nodes with an older image."""
    if spans:
        return f"gpuprov rm NODE; {name_cluster('gpuprov cluster up', cluster)}"
    return name_cluster("gpuprov cluster up --renew", cluster)


def _has_its_own(node: NodeState) -> bool:
    order = read_order(node)
    return order is not None and order.image is not None


def _records(driver: Driver, spec: ClusterSpec, name: str) -> dict[CudaWheels, RecipeRecord]:
    """What nodes of a role would be made from, for each set of CUDA's packages; empty for an unknown role."""
    from gpuprov.roles.registry import ROLES  # here, for a list of nodes needs no role and starts sooner without

    role = ROLES.get(name)
    if role is None:
        return {}
    init = init_of(driver)
    recipes = {wheels: recipe_for(spec, role.recipe_of(spec), wheels, init=init) for wheels in _WHEELS["none"]}
    contents = recipes["none"].hash_contents()  # which all of them have in common
    return {wheels: record_recipe(recipe, contents) for wheels, recipe in recipes.items()}


def _judge(node: NodeState, records: Mapping[CudaWheels, RecipeRecord], newest: Mapping[str, str]) -> str:
    """What the image of a node lacks; empty where it is none of the older ones."""
    fitting = [records[wheels] for wheels in _WHEELS.get(node.labels.get(LABEL_ACCESS, "none"), _REAL)]
    old = read_recipe_record(node.labels.get(LABEL_RECIPE, ""))
    if old is None:
        known = {short(record.fingerprint) for record in fitting}
        return "" if node.labels.get(LABEL_IMAGE, "")[-SHORT_LENGTH:] in known else UNKNOWN
    if old.fingerprint in {record.fingerprint for record in fitting}:
        there, mine = newest.get(old.fingerprint), node.labels.get(LABEL_IMAGE)
        return "" if there in {None, mine} else f"packages are older than those of {there}"
    return describe_lack(old, _nearest(old, fitting))


def _nearest(old: RecipeRecord, records: Sequence[RecipeRecord]) -> RecipeRecord:
    return min(records, key=lambda record: differences(old, record))
