"""What hosts have recorded of a whole cluster is told once, whatever their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.fleet.cluster_records import ClusterRecords
from gpuprov.fleet.find_hosted import require_spanning
from gpuprov.fleet.member.host_part import HostPart
from gpuprov.fleet.member.serve import serve_request
from gpuprov.fleet.member.told_part import fingerprint_of
from gpuprov.shapes.orders import MemberPlanOrder
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.unit.stories.test_hosts_up import NAMES, Controller

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.hosts import HostAnswers
    from tests.conftest import Recording

pytestmark = pytest.mark.slow


class Counting:
    """The hosts of a cluster that is up; counts who is asked for a record.

    Attributes:
        asked: Hosts, in order.
    """

    def __init__(self, lab: Controller) -> None:
        self._hosts = lab.hosts
        self.asked: list[str] = []

    def ask(self, requests: dict[RemoteMachine, MemberRequest]) -> HostAnswers:
        self.asked += [machine.name for machine, request in requests.items() if request.verb == "record"]
        return self._hosts.ask(requests)


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Controller:
    keep_keys_below(tmp_path / "data", monkeypatch)
    made = Controller(HostsInWorlds(tmp_path, recording, NAMES), recording)
    made.up()
    return made


def brief(lab: Controller) -> dict[str, HostPart]:
    """The parts as hosts tell them."""
    seen = require_spanning("lab", lab.hosts.machines, lab.hosts)
    return {host: HostPart(engine="lxd", record=part.record) for host, part in seen.parts.items()}


def test_of_hosts_that_have_recorded_the_same_one_is_asked(lab: Controller) -> None:
    parts, hosts = brief(lab), Counting(lab)
    records = ClusterRecords("lab", hosts)  # type: ignore[arg-type]
    told = [records.complete(lab.hosts.machines[host], part) for host, part in parts.items()]
    assert hosts.asked == ["hoff"]
    assert told[0].whole is told[1].whole
    assert fingerprint_of(told[0].spec, told[0].whole) == parts["hoff"].record


def test_where_one_does_not_answer_any_more_another_one_is_asked(lab: Controller) -> None:
    parts, hosts = brief(lab), Counting(lab)
    records = ClusterRecords("lab", hosts)  # type: ignore[arg-type]
    lab.hosts.away.add("hoff")
    assert records.complete_first(lab.hosts.machines["hoff"], parts["hoff"]).whole is None
    with pytest.raises(GpuprovError, match="hoff is unreachable"):
        records.complete(lab.hosts.machines["hoff"], parts["hoff"])
    assert records.complete(lab.hosts.machines["hinton"], parts["hinton"]).whole is not None
    assert records.complete(lab.hosts.machines["hoff"], parts["hoff"]).whole is not None


def test_a_host_that_has_recorded_something_else_meanwhile_plans_nothing(lab: Controller) -> None:
    host = lab.hosts.worlds["hoff"].host.called("hoff")
    record = brief(lab)["hoff"].record
    asked = MemberPlanOrder(cluster="lab", record=record, nodes=("c000", "c001"))
    assert serve_request(asked, host, reporter=lab.reporter)
    lab.up(6)
    with pytest.raises(UsageError, match="has been changed from another machine"):
        serve_request(asked, host, reporter=lab.reporter)


def test_an_unchanged_plan_does_not_send_what_hosts_have_recorded(lab: Controller) -> None:
    sent: list[MemberPlanOrder] = []
    ask = lab.hosts.ask

    def listen(requests: dict[RemoteMachine, MemberRequest], *further: object) -> HostAnswers:
        sent.extend(request.order for request in requests.values() if isinstance(request.order, MemberPlanOrder))
        return ask(requests, *further)  # type: ignore[arg-type]

    lab.hosts.ask = listen  # type: ignore[method-assign, assignment]
    assert lab.plan() == ()
    assert [(order.whole, bool(order.record)) for order in sent] == [(None, True)] * 2
    sent.clear()
    assert lab.plan(6)
    assert all(order.whole is not None and not order.record for order in sent)
