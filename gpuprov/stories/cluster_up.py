"""`cluster up` and `cluster plan`: what is asked for is found out, then the hosts of the cluster bring it about.

This machine does so in process. Several hosts agree first on what each is to do (fleet/hosts_up.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.here import find_over_hosts
from gpuprov.lifecycle.cluster_order import resolve_engine, resolve_name, resolve_spanning, resolve_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.shrinking import Shrinking
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.agree import HostsUpOrder
    from gpuprov.fleet.done import BroughtUp, PlannedUp
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.lifecycle.cluster_order import ClusterOrder
    from gpuprov.lifecycle.cluster_up import UpOrder
    from gpuprov.lifecycle.replace_older import Replaceable
    from gpuprov.machine.base import Host
    from gpuprov.spec.draft import Draft

    Found = tuple[Driver, Draft, ClusterState]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Who is asked before something is lost; each raises where that is not to be.

    Attributes:
        shrink: Is asked before nodes or the folder go, by the cluster's name and what is lost; None asks no question.
        renew: Is asked before nodes are replaced.
        gives_up: Whether nodes may lose options that this version does not know.
    """

    shrink: Callable[[str, Shrinking], None] | None = None
    renew: Callable[[str, Replaceable], None] | None = None
    gives_up: bool = False


NOBODY = Asking()


def plan_cluster(fleet: Fleet, order: ClusterOrder, asking: Asking = NOBODY, *, tell_before: bool = False) -> PlannedUp:
    """What `bring_up` would change; raises what it would refuse, and changes nothing.

    Where jobs alone are why this host would refuse, that is told with the changes.

    Args:
        fleet: The hosts.
        order: The cluster.
        asking: As there.
        tell_before: Whether the nodes as they are now are told.
    """
    from gpuprov.fleet.done import PlannedUp
    from gpuprov.lifecycle.cluster_up import preview_up
    from gpuprov.lifecycle.replace_older import find_replaceable
    from gpuprov.lifecycle.rows import state_rows

    over_hosts = _order_over_hosts(fleet, order, asking)
    if over_hosts is not None:
        from gpuprov.fleet.hosts_up import look_and_plan_over_hosts

        return look_and_plan_over_hosts(over_hosts, fleet.connect(), reporter=fleet.reporter)
    driver, draft, seen = found = _settle(fleet, order)
    preview = preview_up(driver, _order_here(found, order, asking), fleet.here, reporter=fleet.reporter)
    if preview.choice:
        fleet.reporter.node("networks", preview.choice)
    if preview.shared:
        fleet.reporter.note(preview.shared)
    replaced = find_replaceable(driver, seen, draft.spec).lines if order.renew else ()
    return PlannedUp(
        lines=(*preview.changes, *replaced),
        kept=preview.beside,
        older=preview.older,
        unlimited=preview.unlimited,
        shared=preview.shared,
        busy=preview.busy,
        spec=draft.spec,
        before=state_rows(driver, seen) if tell_before else (),
    )


def bring_up(fleet: Fleet, order: ClusterOrder, asking: Asking = NOBODY, *, tell_before: bool = False) -> BroughtUp:
    """Bring a cluster to what its spec says, and prove its nodes.

    Args:
        fleet: The hosts.
        order: The cluster.
        asking: Who is asked before something is lost.
        tell_before: Whether the nodes as they were are told.

    Raises:
        GpuprovError: Something refused or failed; what this run made on a host that failed is removed again.
    """
    over_hosts = _order_over_hosts(fleet, order, asking)
    if over_hosts is not None:
        from gpuprov.fleet.hosts_up import up_over_hosts

        return up_over_hosts(over_hosts, fleet.connect(), reporter=fleet.reporter)
    from gpuprov.cluster.retry_after_wait import act_on

    return act_on(
        fleet.here,
        lambda: _settle(fleet, order),
        lambda found, host: _up_here(fleet, found, order, asking, host, tell_before=tell_before),
        key=lambda found: found[1],  # whose spec names the engine as well
    )


def _up_here(
    fleet: Fleet, found: Found, order: ClusterOrder, asking: Asking, host: Host, *, tell_before: bool
) -> BroughtUp:
    from gpuprov.fleet.done import BroughtUp
    from gpuprov.lifecycle.cluster_up import cluster_up
    from gpuprov.lifecycle.replace_older import replace_older
    from gpuprov.lifecycle.rows import state_rows

    driver, draft, seen = found
    spec, before = draft.spec, state_rows(driver, seen) if tell_before else ()
    wanted = _order_here(found, order, asking)
    renews = order.renew and _agreed(fleet, found, asking)
    result = (replace_older if renews else cluster_up)(driver, wanted, host, reporter=fleet.reporter)
    return BroughtUp(
        outcome=Outcome(changed=result.changed),
        spec=result.spec,
        rows=result.rows(driver, spec.name),
        report=result.report,
        before=before,
    )


def _settle(fleet: Fleet, order: ClusterOrder) -> Found:
    """The engine of this machine, the spec with what is left open in it, and the cluster as it is."""
    driver = resolve_engine(fleet.here, order.engine, order, reporter=fleet.reporter)
    return driver, *resolve_spec(driver, order)


def _order_here(found: Found, order: ClusterOrder, asking: Asking) -> UpOrder:
    from gpuprov.lifecycle.cluster_up import UpOrder

    _, draft, seen = found
    return UpOrder(
        spec=draft.spec,
        left=draft.left,
        seen=seen,
        policy=order.policy,
        agreed=_agreed_loss(found, order, asking),
        keep_on_failure=order.keep_on_failure,
        verify=order.verify,
        prune=order.prune,
        gives_up=asking.gives_up,
    )


def _agreed_loss(found: Found, order: ClusterOrder, asking: Asking) -> Shrinking | None:
    """What the cluster may lose to a file, now that it is agreed to; None where nobody is asked."""
    if asking.shrink is None:
        return None
    from gpuprov.cluster.shrinking import foresee_shrinking

    _, draft, seen = found
    shrinking = foresee_shrinking(draft, seen)
    asking.shrink(draft.spec.name, shrinking)
    return None if order.prune else shrinking


def _agreed(fleet: Fleet, found: Found, asking: Asking) -> bool:
    """Whether nodes are to be replaced; False where none has an older image."""
    from gpuprov.lifecycle.replace_older import find_replaceable

    driver, draft, seen = found
    replaceable = find_replaceable(driver, seen, draft.spec)
    if not replaceable.names:
        fleet.reporter.note("no node is replaced: none has an older image")
    elif asking.renew:
        asking.renew(draft.spec.name, replaceable)
    return bool(replaceable.names)


def _order_over_hosts(fleet: Fleet, order: ClusterOrder, asking: Asking) -> HostsUpOrder | None:
    """What hosts are to agree on; None where neither the file nor what is recorded names hosts.

    Raises:
        UsageError: Nodes are to be replaced, which is not done over hosts.
    """
    asks = order.file is None and order.engine is None
    seen = find_over_hosts(fleet, resolve_name(order)) if asks else None
    draft = resolve_spanning(order, order.engine, seen.spec if seen else None)
    if draft is None:
        return None
    name = draft.spec.name
    if order.renew:
        raise UsageError(
            f"nodes of cluster {name} are not replaced by --renew: it spans hosts",
            evidence=f"hosts: {', '.join(host.name for host in draft.spec.hosts)}",
            fix=f"replace them one by one: gpuprov rm NODE; {name_cluster('gpuprov cluster up', name)}",
        )
    from gpuprov.fleet.agree import HostsUpOrder

    return HostsUpOrder(
        draft=draft,
        known=fleet.others,
        policy=order.policy,
        keep_on_failure=order.keep_on_failure,
        verify=order.verify,
        prune=order.prune,
        found=seen,
        confirm=partial(asking.shrink, name) if asking.shrink else None,
    )
