"""What `cluster up` would do is a value, made of the spec and of what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.observed import observe
from gpuprov.cluster.state import observe_engine
from gpuprov.lifecycle.cluster_plan import PlanOrder, plan_up
from gpuprov.roles.registry import PLAIN, ROLES, Roles, settle
from gpuprov.shapes.base import changed
from gpuprov.spec.draft import CHOOSABLE

if TYPE_CHECKING:
    from gpuprov.cluster.observed import Observed
    from tests.fakes.world import World


def look(world: World, cluster: str = "lab") -> Observed:
    claims = Neighbours(world.host).claims("fake")
    return observe(world.driver, world.host, observe_engine(world.driver), cluster, world.gpus, claims)


def test_a_plan_follows_from_what_was_observed_whatever_is_there_by_now(world: World) -> None:
    order = PlanOrder(spec=world.spec(2))
    before = look(world)
    world.up(2)
    for observed, lines in ((before, 4), (look(world), 0)):
        plan = plan_up(order, settle(order.draft, observed), observed, ROLES)
        assert (len(plan.todo.lines()), plan.leaves) == (lines, ())
    assert sorted(world.engine.nodes) == ["c000", "c001"]


def test_what_is_settled_is_finished(world: World) -> None:
    first = settle(PlanOrder(spec=world.spec(2), left=CHOOSABLE).draft, look(world))
    world.up(spec=first)
    again = PlanOrder(spec=world.spec(2), left=CHOOSABLE)
    assert settle(again.draft, look(world)) == first
    other = settle(PlanOrder(spec=changed(world.spec(1), name="two"), left=CHOOSABLE).draft, look(world, "two"))
    assert (other.network.bridge, other.nodes.prefix) == ("gpbr2", "two-")


def test_a_plan_knows_the_roles_that_it_is_handed(world: World) -> None:
    world.up(2)
    order = PlanOrder(spec=world.spec(1))
    observed = look(world)
    for roles, mounted in ((ROLES, True), (Roles({PLAIN.name: PLAIN}), False)):
        shared = roles.mounts(changed(order.spec, share=True))
        assert bool(shared.get("slurm")) is mounted
        plan = plan_up(order, order.spec, observed, roles)
        assert [(leave.departure.nodes, leave.departure.lost) for leave in plan.leaves] == [(("c001",), ("c001",))]
