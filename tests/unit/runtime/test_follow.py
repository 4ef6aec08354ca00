"""A config.json with a policy's mounts, variables and user in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.runtime.edit import POLICY, take_back
from gpuprov.runtime.follow import follow_rules
from gpuprov.runtime.rules import PolicyMount, Rules

CAPABILITIES = {"bounding": ["CAP_CHOWN"], "effective": ["CAP_CHOWN"], "permitted": ["CAP_CHOWN"]}


def plain(*env: str) -> dict[str, Any]:
    return {
        "process": {"env": ["PATH=/bin", *env], "user": {"uid": 0, "gid": 0}, "capabilities": CAPABILITIES},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    }


def test_variables_are_set_where_there_are_none_and_forced_everywhere() -> None:
    rules = Rules(
        added={"A": "x=y", "PATH": "/sbin", "B": "one\ntwo"}, forced={"LANG": "C", "AB": "é"}, touch="everything"
    )
    spec = plain("LANG=de", "LANGUAGE=de", "B", "LANG=fr", "ABC=1")
    edited, steps = follow_rules(spec, rules)
    assert spec == plain("LANG=de", "LANGUAGE=de", "B", "LANG=fr", "ABC=1")
    assert edited["process"]["env"] == ["PATH=/bin", "LANGUAGE=de", "B", "ABC=1", "A=x=y", "LANG=C", "AB=é"]
    assert [(step.rule, step.what) for step in steps] == [
        ("variables.set", "A"),
        ("variables.force", "LANG, in place of its own"),
        ("variables.force", "AB"),
    ]
    assert follow_rules(edited, rules) == (edited, ())


def test_a_container_as_the_policy_wants_it_is_left_as_it_is() -> None:
    rules = Rules(touch="everything", added={"PATH": "/"}, forced={"A": "1"}, user="0:0")
    assert follow_rules(plain("A=1"), rules) == (plain("A=1"), ())


def test_ten_thousand_variables() -> None:
    many = [f"V{number}=x=y\n" for number in range(10_000)]
    edited, _ = follow_rules(plain(*many), Rules(forced={"V7": "7"}))
    assert len(edited["process"]["env"]) == 10_001
    assert edited["process"]["env"].count("V7=7") == 1
    assert "V77=x=y\n" in edited["process"]["env"]


@pytest.mark.parametrize(
    ("rule", "env", "user"),
    [
        ("keep", (), (0, 0)),
        ("1000:100", (), (1000, 100)),
        ("$WHO", (), (0, 0)),
        ("$WHO", ("WHO=1000",), (1000, 1000)),
        ("$WHO", ("WHO=1000:5",), (1000, 5)),
        ("$WHO", ("WHO=keep",), (0, 0)),
        ("$WHO", ("WHO=",), (0, 0)),
        ("$WHO", ("WHOM=1000",), (0, 0)),
        ("1000:100", ("WHO=0",), (1000, 100)),
    ],
)
def test_the_user_is_the_container_s_own_a_fixed_one_or_that_of_a_variable(
    rule: str, env: tuple[str, ...], user: tuple[int, int]
) -> None:
    edited, _ = follow_rules(plain(*env), Rules(user=rule))
    told = edited["process"]["user"]
    assert (told["uid"], told["gid"]) == user
    assert ("effective" in edited["process"]["capabilities"]) == (user[0] == 0)


@pytest.mark.parametrize("value", ["root", "-1", "1:2:3", "4294967295", "1\n2", "\u0661"])
def test_a_variable_that_names_no_user_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not a user"):
        follow_rules(plain(f"WHO={value}"), Rules(user="$WHO"))


def test_mounts_come_before_what_the_container_mounts_below_them_and_not_over_its_own() -> None:
    spec = plain()
    for target in ("/home/a", "/opt/"):
        spec["mounts"].append({"destination": target, "type": "bind", "source": "/own"})
    mounts = [PolicyMount(source=f"/srv{target}", target=target) for target in ("/home", "/opt", "/ho", "/data")]
    rules = Rules(mounts=tuple(mounts))
    edited, steps = follow_rules(spec, rules)
    assert [one["destination"] for one in edited["mounts"]] == ["/proc", "/home", "/home/a", "/opt/", "/ho", "/data"]
    assert [step.what for step in steps] == ["/srv/home at /home", "/srv/ho at /ho", "/srv/data at /data"]
    assert json.loads(edited["annotations"][POLICY]) == {"files": ["/home", "/ho", "/data"]}
    assert take_back(edited) == {**spec, "annotations": {}}
    covered = Rules(mounts=(PolicyMount(source="/srv", target="/home/a/b", read_only=True),))
    with pytest.raises(HostNotReady, match="mounts /home/a"):
        follow_rules(spec, covered)
