"""QOS of Slurm: what a spec may say, and what its accounting is told where that differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.registry import ROLE_NAMES, check_spec
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.roles.slurm.partitions import RULES as PARTITION_RULES
from gpuprov.roles.slurm.qos import RULES as QOS_RULES
from gpuprov.roles.slurm.qos import Qos, SeenQos, ensure_qos, parse_qos, plan_qos
from gpuprov.shapes.cluster_spec import ClusterSpec, PersonSpec, QosSpec, SlurmSpec
from gpuprov.shapes.whole import Member
from gpuprov.spec.load import read_draft
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

LONG, FREE = QosSpec(name="long", max_time="72h", gpus=1), QosSpec(name="free")
# As sacctmgr of Slurm 22.05 printed it
BEFORE = "normal|Normal QOS default|||\nallowed normal\n"
AFTER = (
    "normal|Normal QOS default|||\nlong|gpuprov|3-00:00:00|gres/gpu=1|DenyOnLimit\nfree|gpuprov|||DenyOnLimit\n"
    "allowed free,long,normal\n"
)


def spec(*qos: QosSpec, **more: Any) -> ClusterSpec:
    return ClusterSpec(**{"accounting": True, **more}, slurm=SlurmSpec(qos=qos))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (spec(LONG, accounting=False), r"slurm\.qos: needs accounting"),
        (spec(LONG, QosSpec(name="Long")), r"slurm.qos\[1\].name: Long is the name of slurm.qos\[0\]"),
        (spec(QosSpec(name="long", max_time="3d")), r"slurm.qos\[0\].max_time: '3d' is not a valid duration"),
        (spec(QosSpec(name="a b")), r"slurm.qos\[0\].name: is 'a b'"),
        (spec(QosSpec(name="long", gpus=-1)), r"slurm.qos\[0\].gpus: is -1"),
    ],
    ids=["no accounting", "one name twice", "a bad time", "a bad name", "less than none"],
)
def test_what_cannot_be_is_refused(wanted: ClusterSpec, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_spec(wanted)


def test_a_fault_of_a_type_hides_no_other_beside_it() -> None:
    text = """version: gpuprov/v1
accounting: on
slurm:
  qos: [{name: a, gpus: few, max_time: 9d}, {name: b, max_time: 5}, {name: c, more: 1, max_time: 0m}]
  partitions: [{name: x, oversubscribe: 3, max_time: 9d}]
"""
    with pytest.raises(SpecError) as caught:
        read_draft(text, name="lab.yaml", roles=ROLE_NAMES, rules=(*QOS_RULES, *PARTITION_RULES))
    assert sorted(fault.where for fault in caught.value.problems) == [
        "slurm.partitions[0].max_time",
        "slurm.partitions[0].oversubscribe",
        "slurm.qos[0].gpus",
        "slurm.qos[0].max_time",
        "slurm.qos[1].max_time",
        "slurm.qos[2].max_time",
        "slurm.qos[2].more",
    ]


def test_a_spec_without_any_is_recorded_as_before() -> None:
    assert "qos" not in dump_spec(spec())
    assert load_spec_json(dump_spec(spec(LONG)), cluster="lab") == spec(LONG)


def test_what_sacctmgr_prints_is_read() -> None:
    seen = parse_qos(AFTER)
    assert seen.allowed == {"free", "long", "normal"}
    assert seen.listed["long"] == Qos(ours=True, minutes=72 * 60, gpus=1, denies=True)
    assert seen.listed["free"] == Qos(ours=True, minutes=-1, gpus=-1, denies=True)
    assert not seen.listed["normal"].ours
    for line in ("long|gpuprov", "long|gpuprov|soon||", "; rm -rf /|x|||"):
        with pytest.raises(ValueError, match=r"."):
            parse_qos(f"{line}\n")


def test_only_differences_are_told() -> None:
    assert plan_qos("lab", (LONG, FREE), parse_qos(AFTER)) == ()
    assert plan_qos("lab", (LONG, FREE), parse_qos(BEFORE)) == (
        "add qos long description=gpuprov",
        "modify qos long set MaxWall=4320 MaxTRESPerUser=gres/gpu=1 Flags=DenyOnLimit",
        "add qos free description=gpuprov",
        "modify qos free set MaxWall=-1 MaxTRESPerUser=gres/gpu=-1 Flags=DenyOnLimit",
        "modify cluster lab set QosLevel+=free,long",
    )
    shorter = QosSpec(name="long", max_time="90s", gpus=1)
    assert plan_qos("lab", (shorter, FREE), parse_qos(AFTER)) == (
        "modify qos long set MaxWall=2 MaxTRESPerUser=gres/gpu=1 Flags=DenyOnLimit",
    )


def test_one_that_goes_cannot_be_chosen_and_an_administrators_stays() -> None:
    seen = parse_qos(AFTER)
    theirs = SeenQos(
        listed={**seen.listed, "vip": Qos(ours=False, minutes=-1, gpus=-1, denies=False)},
        allowed=seen.allowed | {"vip"},
    )
    assert plan_qos("lab", (FREE,), theirs) == ("modify cluster lab set QosLevel-=long",)


class Node:
    """A node with an accounting."""

    def __init__(self, *said: ExecResult) -> None:
        self.said, self.told = list(said), list[bytes]()

    def run(self, _name: str, _argv: list[str], *, timeout_s: float, stdin: bytes = b"") -> ExecResult:  # noqa: ARG002
        self.told.append(stdin)
        return self.said.pop(0)


def said(stdout: str = "", stderr: str = "", exit_code: int = 0) -> ExecResult:
    return ExecResult(exit_code=exit_code, stdout=stdout, stderr=stderr)


def ensure(node: Node) -> None:
    driver: Driver = node  # type: ignore[assignment]
    ensure_qos(driver, "c000", spec(LONG))


def test_it_is_told_once_and_not_where_nothing_is_recorded() -> None:
    node = Node(said(BEFORE), said())
    ensure(node)
    assert node.told[1].startswith(b"add qos long description=gpuprov\n")
    for text in ("", AFTER.replace("allowed free,", "allowed ").replace("free|gpuprov|||DenyOnLimit\n", "")):
        node = Node(said(text))
        ensure(node)
        assert node.told == [b""]


@pytest.mark.parametrize(
    "answers",
    [(said(stderr="no", exit_code=1),), (said("nonsense"),), (said(BEFORE), said(stderr="no", exit_code=1))],
    ids=["away", "nonsense", "refused"],
)
def test_an_accounting_that_does_not_take_them_is_an_error(answers: tuple[ExecResult, ...]) -> None:
    with pytest.raises(EngineError, match=r"does not take slurm\.qos") as caught:
        ensure(Node(*answers))
    assert caught.value.fix == "gpuprov exec c000 -- sacctmgr show qos"


def test_slurm_holds_jobs_to_them_only_where_there_are_any() -> None:
    members = [Member(name="c000", address="10.0.3.2", private_address="", role="slurm")]
    machine = Machine(cpus=1, memory_bytes=1 << 30)
    with_any, without = (
        render_slurm(spec(*qos), members, machine, accounting=True)[0].content.decode() for qos in ((LONG,), ())
    )
    assert "AccountingStorageEnforce=limits,qos\n" in with_any
    limited = PersonSpec(name="ann", uid=10001, gpus=2)
    both = render_slurm(spec(LONG, people=(limited,)), members, machine, accounting=True)[0].content.decode()
    assert both.count("AccountingStorageEnforce=") == 1
    assert "AccountingStorageEnforce=limits,qos\n" in both
    assert "Enforce=" not in without.replace("EnforcePartLimits", "")
