"""`image build` and `image rm`: an image apart from any cluster, under the host lock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.build_image import EnsuredImage, find_built
from gpuprov.cluster.built_images import delete_built, match_images, remove_left_builder
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.images import ensure_node_image, node_recipe
from gpuprov.cluster.network_plan import NetworkPlan, plan_networks
from gpuprov.cluster.networks import networks_created
from gpuprov.cluster.services import init_of
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.planes.registry import check_spec, plane_of
from gpuprov.spec.draft import NETWORK_VALUES, SHARE, Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.spec.models import ClusterSpec

LABEL_PURPOSE, PURPOSE = "gpuprov.purpose", "image build"  # on a bridge that goes with the build


def build_image(driver: Driver, spec: ClusterSpec, host: Host, gpus: HostGpus, *, reporter: Reporter) -> EnsuredImage:
    """Build the image for the spec's role unless it is there; a bridge made for that alone is removed again.

    The spec's networks are those that are preferred: others are taken where something else has them.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    check_spec(spec, left=frozenset({SHARE}))
    plane = plane_of(spec.nodes.role).recipe
    with host.lock(reporter):
        state = observe_cluster(driver, spec.name)
        left = _left_networks(state)
        remove_left_builder(driver, reporter)
        found = find_built(driver, node_recipe(spec, plane, gpus, init=init_of(driver)))
        if found is not None:
            _remove_networks(driver, left)
            return EnsuredImage(image=found, built=False)
        around = Surroundings(driver, host, state)
        spec = around.settle(Draft(spec=spec, left=NETWORK_VALUES))
        around.refuse_taken_by_others(spec, private=False)
        warn_of_silence(around.silent, reporter)
        plan = plan_networks(spec, state, version=__version__)
        create, complete = (_for_build(requests, spec) for requests in (plan.create, plan.complete))
        networks = NetworkPlan(create=create, complete=complete)
        with (
            Rollback(reporter, left_over=AGAIN) as rollback,
            networks_created(driver, networks, rollback, reporter=reporter) as completed,
        ):
            image = ensure_node_image(driver, spec, plane, gpus, networks=completed, reporter=reporter)
        _remove_networks(driver, [*left, *(request.name for request in create)])
    return EnsuredImage(image=image, built=True)


def _for_build(requests: Sequence[NetworkRequest], spec: ClusterSpec) -> tuple[NetworkRequest, ...]:
    """The NAT network of these alone, marked as one that goes with the build."""
    return tuple(
        replace(request, labels={**request.labels, LABEL_PURPOSE: PURPOSE})
        for request in requests
        if request.name == spec.network.bridge
    )


def _left_networks(state: ClusterState) -> list[str]:
    """Bridges that a killed build made for itself, and that nobody has begun to use for a cluster since."""
    if state.nodes or state.recorded is not None:
        return []
    return [network.name for network in state.own_networks if network.labels.get(LABEL_PURPOSE) == PURPOSE]


def _remove_networks(driver: Driver, names: Sequence[str]) -> None:
    for name in names:
        driver.delete_network(name)


def remove_image(driver: Driver, name: str, host: Host, *, reporter: Reporter) -> Outcome:
    """Remove an image by name or by the first digits of its fingerprint; one that is not there is said, and no error.

    Raises:
        EngineError: There is more than one of that name.
    """
    with host.lock(reporter):
        if name and not match_images(driver, name):
            reporter.note(f"there is no image {name}")
            return Outcome()
        return Outcome(changed=(f"removed image {delete_built(driver, name).name}",))
