"""`image build` and `image rm`: an image apart from any cluster, under the host lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.core.lock import host_lock
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import Rollback
from gpuprov.spec.validate import check_spec
from gpuprov.workflows.build_image import EnsuredImage, find_built, remove_image
from gpuprov.workflows.cluster_state import observe_cluster
from gpuprov.workflows.host_room import refuse_host_conflicts
from gpuprov.workflows.networks import ensure_networks, plan_networks
from gpuprov.workflows.node_image import ensure_node_image, node_recipe
from gpuprov.workflows.services import init_of

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import ClusterSpec


def build_image(driver: Driver, spec: ClusterSpec, host: HostGpus, *, reporter: Reporter) -> EnsuredImage:
    """Build the image for the spec's role unless it is there; a bridge made for that alone is removed again.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    check_spec(spec)
    role = spec.nodes.role
    with host_lock(reporter):
        found = find_built(driver, node_recipe(spec, role, host, init=init_of(driver)))
        if found is not None:
            return EnsuredImage(image=found, built=False)
        state = observe_cluster(driver, spec.name)
        missing = tuple(
            request
            for request in plan_networks(spec, state, version=__version__)
            if request.name == spec.network.bridge
        )
        refuse_host_conflicts(driver, spec, networks=missing, nodes=0)
        with Rollback(reporter) as rollback:
            ensure_networks(driver, missing, rollback)
            image = ensure_node_image(driver, spec, role, host, reporter=reporter)
        for request in missing:
            driver.delete_network(request.name)
    return EnsuredImage(image=image, built=True)


def remove(driver: Driver, name: str, *, reporter: Reporter) -> Outcome:
    """Remove an image by name or by the first digits of its fingerprint.

    Raises:
        EngineError: There is none, or more than one, of that name.
    """
    with host_lock(reporter):
        return Outcome(changed=(f"removed image {remove_image(driver, name).name}",))
