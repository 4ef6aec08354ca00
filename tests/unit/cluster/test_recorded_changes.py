from __future__ import annotations

import pytest

from gpuprov.cluster.recorded_changes import describe_changes, refuse_handed_on
from gpuprov.cluster.shrinking import lost_people
from gpuprov.core.errors import UsageError
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, PartitionSpec, PersonSpec, QosSpec, SlurmSpec

ANN = PersonSpec(name="ann", uid=10001, keys=("ssh-ed25519 A",), account="vision")


def spec(*people: PersonSpec, qos: tuple[QosSpec, ...] = ()) -> ClusterSpec:
    return ClusterSpec(people=people, slurm=SlurmSpec(qos=qos))


def test_who_comes_who_goes_and_who_changes() -> None:
    bob, eve = PersonSpec(name="bob", uid=10002), PersonSpec(name="eve", uid=10003)
    other = changed(ANN, uid=10005, keys=("ssh-ed25519 B",), account=None)
    *lists, change = describe_changes(spec(other, eve), spec(ANN, bob))
    assert lists == ["add people: eve (10003)", "remove people: bob (10002)"]
    uid, account = "uid: 10005 (until now 10001), files keep the number 10001", "account: unset (until now vision)"
    assert change == f"change person ann: {uid}, other keys, {account}"
    assert describe_changes(spec(ANN), spec(ANN)) == ()


def test_people_of_a_directory_have_no_number_to_show_or_to_hand_on() -> None:
    dora, emma = PersonSpec(name="dora", gpus=1), PersonSpec(name="emma")
    assert describe_changes(spec(dora), spec(emma)) == ("add people: dora (gpus: 1)", "remove people: emma")
    refuse_handed_on(spec(dora), spec(emma))
    (line,) = describe_changes(spec(changed(ANN, uid=None, keys=())), spec(ANN))
    assert line == "change person ann: uid: unset (until now 10001), files keep the number 10001, other keys"
    assert (lost_people(spec(dora, ANN), spec()), lost_people(spec(dora), spec())) == (("ann",), ())


def test_the_site_s_sssd_conf() -> None:
    with_sssd = changed(spec(ANN), sssd="/etc/site/sssd.conf")
    assert describe_changes(with_sssd, spec(ANN)) == ("record sssd: /etc/site/sssd.conf (until now unset)",)
    assert describe_changes(spec(ANN), with_sssd) == ("record sssd: unset (until now /etc/site/sssd.conf)",)


def test_qos_and_limits_of_jobs() -> None:
    long, short = QosSpec(name="long", max_time="72h"), QosSpec(name="short")
    wanted = changed(spec(qos=(changed(long, gpus=2),)), jobs=changed(spec().jobs, submit_as=True, time="2h"))
    assert describe_changes(wanted, spec(qos=(long, short))) == (
        "record jobs.time: 2h (until now unset)",
        "record jobs.submit_as: true (until now unset)",
        "remove QOS: short",
        "change QOS long: gpus: 2 (until now unset)",
    )


def test_no_gpus_at_all_are_a_limit() -> None:
    (line,) = describe_changes(spec(changed(ANN, gpus=0)), spec(changed(ANN, gpus=None)))
    assert line == "change person ann: gpus: 0 (until now unset)"


def test_partitions_and_the_backup() -> None:
    short = PartitionSpec(name="short", max_time="1h", nodes=("c000", "c001"))
    all_of_them = PartitionSpec(name="all", default=True)
    had = ClusterSpec(slurm=SlurmSpec(partitions=(short, all_of_them), backup="c001"))

    def lines(**new: object) -> tuple[str, ...]:
        return describe_changes(changed(had, slurm=changed(had.slurm, **new)), had)

    assert lines(partitions=(all_of_them,)) == ("remove partitions: short",)
    wider, until = changed(short, nodes=None, max_time="2h"), "(until now c[000-001])"
    assert lines(partitions=(wider, all_of_them)) == (
        f"change partition short: max_time: 2h (until now 1h), nodes: unset {until}",
    )
    assert lines(partitions=(all_of_them, short)) == ()
    assert lines(partitions=()) == (
        "add partitions: gpu (default)",
        "remove partitions: all, short",
    )
    assert lines(backup="c002") == ("change the backup of the controller: c002 (until now c001)",)
    assert lines(backup=None) == ("remove the backup of the controller: c001",)


def test_a_new_cluster_comes_with_all_that_is_not_usual() -> None:
    slurm = SlurmSpec(partitions=(PartitionSpec(name="short"),), qos=(QosSpec(name="long", gpus=0),), backup="c001")
    assert describe_changes(ClusterSpec(people=(changed(ANN, gpus=2),), slurm=slurm), None) == (
        "add people: ann (10001, account: vision, gpus: 2)",
        "add partitions: short (default)",
        "add QOS: long (gpus: 0)",
        "add the backup of the controller: c001",
    )
    assert describe_changes(ClusterSpec(), None) == ()
    assert describe_changes(ClusterSpec(slurm=SlurmSpec(partition="all")), None) == ("add partitions: all (default)",)


def test_five_hundred_people_are_a_line() -> None:
    crowd = [PersonSpec(name=f"p{number}", uid=20000 + number) for number in range(500)]
    (line,) = describe_changes(spec(*crowd), spec())
    assert line.endswith("p9 (20009) and 490 more")
    lines = describe_changes(spec(*(changed(one, gpus=1) for one in crowd)), spec(*crowd))
    assert (len(lines), lines[-1]) == (11, "change 490 more people")


def test_nobody_gets_the_number_of_somebody_else_at_once() -> None:
    bob, dan = PersonSpec(name="bob", uid=10002), PersonSpec(name="dan", uid=10002)
    refuse_handed_on(spec(ANN, bob), spec(bob))
    refuse_handed_on(spec(dan), spec(ANN))
    refuse_handed_on(spec(dan), None)
    with pytest.raises(UsageError, match="the number 10002 of bob cannot become that of dan at once") as refused:
        refuse_handed_on(spec(ANN, dan), spec(ANN, bob))
    assert refused.value.fix.endswith("take bob away before: gpuprov person rm bob")
    with pytest.raises(UsageError):
        refuse_handed_on(spec(changed(ANN, uid=10002), changed(bob, uid=10001)), spec(ANN, bob))
