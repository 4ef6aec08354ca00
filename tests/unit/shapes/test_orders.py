"""Orders to other hosts: what is written is read, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.fleet.member.serve import VERBS, read_order
from gpuprov.shapes.base import encode, raw, text_of, write
from gpuprov.shapes.orders import CreateOrder, KeyOrder, MemberPlanOrder, NodeRunOrder, TellOrder
from gpuprov.shapes.whole import Member, WholeCluster

if TYPE_CHECKING:
    from gpuprov.shapes.orders import Order

NODE = Member(name="c000", address="", private_address="10.0.5.1", role="slurm", host="hoff", cpus=4)
WHOLE = WholeCluster(serial=3, members=(NODE,))
PLAN = MemberPlanOrder(cluster="lab", spec=raw('{"name":"lab"}'), nodes=("c000",), whole=WHOLE, secret=b"\0key")
RUN = NodeRunOrder(engine="lxd", node="c000", argv=("env",), environment={"A": "1=2"}, stdin=b"\xff")


@pytest.mark.parametrize("order", [PLAN, RUN, TellOrder(cluster="lab", whole=WHOLE), KeyOrder(cluster="lab")])
def test_an_order_is_read_as_it_was_written(order: Order) -> None:
    assert read_order(order.verb, raw(order)) == order
    assert VERBS[order.verb] is type(order)


def test_what_is_nested_is_json_and_no_text() -> None:
    told = json.loads(encode(PLAN))
    assert (told["spec"], told["whole"]["members"][0]["name"]) == ({"name": "lab"}, "c000")
    read = read_order("plan", raw(PLAN))
    assert isinstance(read, MemberPlanOrder)
    assert text_of(read.spec) == '{"name":"lab"}', "as it came: its own reader reads it"


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"more": 1}, "unknown field `more`"),
        ({"nodes": None}, "$.nodes"),
        ({"nodes": [7]}, "$.nodes[0]"),
        ({"nodes": ["n" * 301]}, "$.nodes[0]"),
        ({"force": 1}, "$.force"),
        ({"drain_s": -1.0}, "$.drain_s"),
        ({"secret": "?"}, "$.secret"),
        ({"whole": "{}"}, "$.whole"),
        ({"whole": {"members": [{**write(NODE), "cpus": "4"}]}}, "$.whole.members[0].cpus"),
        ({"whole": {"members": [{"name": "c000"}]}}, "$.whole.members[0]"),
        ({"whole": {"tunnels": [{"host": "hoff", "address": "reboot"}]}}, "$.whole.tunnels[0]"),
    ],
)
def test_a_wrong_key_is_named_with_its_path(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(UsageError, match="the request `plan` cannot be served") as caught:
        read_order("plan", raw(json.dumps({**write(PLAN), **wrong})))
    assert path in caught.value.evidence
    assert caught.value.fix.startswith("its keys: cluster, spec, ")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{", '{"cluster":"lab","cluster":"lab"}', '{"cluster":NaN}', "[" * 99_999, '{"cluster":"\\ud800"}'],
)
@pytest.mark.parametrize("verb", ["key", "part"])
def test_what_is_no_order_is_refused(verb: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"`{verb}` cannot be served"):
        read_order(verb, raw(text))


def test_all_keys_are_told() -> None:
    for key in write(PLAN):
        with pytest.raises(UsageError, match="cannot be served"):
            read_order("plan", raw(json.dumps({name: one for name, one in write(PLAN).items() if name != key})))


def test_no_trace_of_an_order_shows_what_nodes_share() -> None:
    order = CreateOrder(order=raw('{"password":"hush"}'), secret=b"hush")
    assert "hush" not in f"{PLAN!r} {order!r} {order!s}"
