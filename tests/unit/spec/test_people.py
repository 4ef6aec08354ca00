"""`people` of a spec: who can have an account, with which number and which keys."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, PersonSpec
from gpuprov.spec.load import read_draft
from gpuprov.spec.people import account_gid, accounts_of, find_key_problem, free_uid
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError, in_spec
from gpuprov.spec.validate import check_spec

if TYPE_CHECKING:
    from pathlib import Path


def key(name: str = "ann", kind: str = "ssh-ed25519") -> str:
    parts = (kind.encode(), name.encode().ljust(32, b"."))
    raw = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"{kind} {base64.b64encode(raw).decode()} {name}@laptop"


ANN = PersonSpec(name="ann", uid=10001, keys=(key(),), account="vision", gpus=2)
BOB = PersonSpec(name="bob", uid=10002)
DORA = PersonSpec(name="dora", account="vision", gpus=1)  # of a directory


def faults(text: str) -> list[str]:
    with pytest.raises(SpecError) as refused:
        read_draft(f"version: gpuprov/v1\n{text}", name="lab.yaml", roles=ROLE_NAMES)
    assert refused.value.fix
    return [in_spec(problem) for problem in refused.value.problems]


def test_people_are_read_and_recorded() -> None:
    text = f"""\
version: gpuprov/v1
people:
  - {{name: ann, uid: 10001, keys: [{key()}], account: vision, gpus: 2}}
  - {{name: bob, uid: 10002}}
"""
    spec = read_draft(text, name="lab.yaml", roles=ROLE_NAMES).spec
    assert spec.people == (ANN, BOB)
    assert load_spec_json(dump_spec(spec), cluster="lab") == spec


def test_a_spec_without_people_is_recorded_as_before_there_were_any() -> None:
    assert "people" not in json.loads(dump_spec(ClusterSpec()))


@pytest.mark.parametrize(
    ("person", "said"),
    [
        ("{name: Ann, uid: 10002}", "people[1].name: line 4: is 'Ann' (allowed: 1 to 31 of a-z"),
        ("{name: root, uid: 10002}", "people[1].name: line 4: 'root' is an account or a group of the nodes"),
        ("{name: work, uid: 10002}", "people[1].name: line 4: 'work' is an account or a group of the nodes"),
        ("{name: systemd-x, uid: 10002}", "people[1].name: line 4: 'systemd-x' is an account or a group"),
        ("{name: ann, uid: 10002}", "people[1].name: line 4: 'ann' is the name of people[0]"),
        ("{name: vision, uid: 10002}", "people[1].name: line 4: 'vision' is the name of an account, too"),
        ("{name: bob, uid: 10001}", "people[1].uid: line 4: 10001 is the number of people[0]"),
        ("{name: bob, uid: 999}", "people[1].uid: line 4: is 999 (allowed: 1000 to 59399)"),
        ("{name: bob, uid: 59400}", "people[1].uid: line 4: is 59400 (allowed: 1000 to 59399)"),
        ("{name: bob}", "people[1]: line 4: has no uid (allowed: 1000 to 59399"),
        (f"{{name: bob, uid: {account_gid('vision')}}}", "is the number of the group of account vision"),
        ("{name: bob, uid: 10002, account: docker}", "people[1].account: line 4: 'docker' is an account or a group"),
        ("{name: bob, uid: 10002, keys: [ssh-ed25519 AAAA]}", "people[1].keys[0]: line 4: is not a public key"),
        ("{name: bob, uid: 10002, gpus: -1}", "people[1].gpus: line 4: is -1"),
        ("{name: bob, uid: 10002, shell: zsh}", "people[1].shell: line 4: is not known"),
    ],
)
def test_somebody_who_cannot_be_is_refused_with_the_line(person: str, said: str) -> None:
    found = faults(f"people:\n  - {{name: ann, uid: 10001, account: vision}}\n  - {person}\n")
    assert any(said in line for line in found), found


@pytest.fixture
def sssd(tmp_path: Path) -> str:
    """The line of a spec with a directory."""
    path = tmp_path / "sssd.conf"
    path.write_text("[sssd]\ndomains = a\n[domain/a]\nid_provider = ldap\n")
    return f"sssd: {path}\n"


def test_people_of_a_directory_have_neither_a_number_nor_keys(sssd: str) -> None:
    text = f"{sssd}people:\n  - {{name: dora, account: vision, gpus: 1}}\n  - {{name: emma}}\n"
    spec = read_draft(f"version: gpuprov/v1\n{text}", name="lab.yaml", roles=ROLE_NAMES).spec
    assert spec.people == (DORA, PersonSpec(name="emma"))
    assert load_spec_json(dump_spec(spec), cluster="lab") == spec
    assert [person.in_directory for person in (DORA, BOB)] == [True, False]
    (line,) = faults(f"{sssd}people:\n  - {{name: dora, keys: [{key()}]}}\n")
    assert line.startswith("people[0].keys: line 4: are of somebody without uid, whose keys the directory has (")
    (line,) = faults(f"{sssd}people:\n  - {{name: dora}}\n  - {{name: dora}}\n")
    assert "is the name of people[0]" in line


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = faults("people:\n  - {name: root, uid: 10001}\n  - {name: mail, uid: 10001, keys: [x]}\n")
    assert len(found) == 4


OPTIONS = "has options before the key, and none are taken: they would limit logins alone, and not jobs"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (key(), ""),
        (key(kind="ssh-rsa"), ""),
        (key().rpartition(" ")[0], ""),
        ("", "is not a public key"),
        ("hello", "is not a public key"),
        (key().replace("ssh-ed25519", "ssh-dss"), "is of no type that sshd takes: ssh-dss"),
        (key().replace("ssh-ed25519", "ssh-rsa"), "is not a whole public key of type ssh-rsa"),
        (key()[:40], "is not a whole public key of type ssh-ed25519"),
        (f"no-pty {key()}", OPTIONS),
        ('command="echo hi",from="10.0.0.1" ssh-ed25519 AAAA', OPTIONS),
        ("ssh-ed25519", "is not a public key"),
        (f"{key()}\n{key()}", "has several lines"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", "is a private key, which must stay where it is"),
    ],
)
def test_keys(text: str, why: str) -> None:
    assert find_key_problem(text) == why


@pytest.mark.parametrize("login", ["c002", "c100"])
def test_people_log_in_to_no_node_that_the_spec_does_not_have(login: str) -> None:
    found = faults(f"nodes: {{count: 2, prefix: c}}\nslurm: {{login: {login}}}\n")
    assert [line.split(": ", 1)[0] for line in found] == ["slurm.login"]
    assert f"there is no node {login} (allowed: c000 to c001, or the name of a node of create-node" in found[0]


@pytest.mark.parametrize("login", ["c001", "login"])
def test_a_login_node_is_of_the_spec_or_of_create_node(login: str) -> None:
    text = f"version: gpuprov/v1\nnodes: {{count: 2, prefix: c}}\nslurm: {{login: {login}}}\n"
    assert read_draft(text, name="lab.yaml", roles=ROLE_NAMES).spec.slurm.login == login


def test_a_private_key_is_not_shown() -> None:
    found = faults(
        'people:\n  - {name: ann, uid: 10001, keys: ["-----BEGIN OPENSSH PRIVATE KEY----- c2VjcmV0c2VjcmV0"]}\n'
    )
    assert len(found) == 1
    assert "c2VjcmV0" not in found[0]


def test_five_hundred_people() -> None:
    people = tuple(
        PersonSpec(name=f"p{number}", uid=10001 + number, keys=(key(f"p{number}"),), account=f"lab{number % 7}")
        for number in range(500)
    )
    spec = changed(ClusterSpec(), people=people)
    check_spec(spec, roles=ROLE_NAMES)
    assert load_spec_json(dump_spec(spec), cluster="lab") == spec
    assert free_uid(people) == 10501


def test_numbers_are_not_given_again_while_a_higher_one_stays() -> None:
    assert free_uid(()) == 10001
    assert free_uid((ANN, BOB)) == 10003
    assert free_uid((BOB, DORA)) == 10003
    assert free_uid((changed(ANN, uid=19_999), BOB)) == 10001


def test_accounts_have_the_same_number_everywhere() -> None:
    assert accounts_of((changed(BOB, account="vision"), ANN, DORA)) == {"vision": ("ann", "bob", "dora")}
    assert account_gid("vision") == account_gid("vision")
    assert 20_000 <= account_gid("vision") <= 59_399


def test_two_accounts_of_one_number_are_refused() -> None:
    names: dict[int, str] = {}
    other = next(
        name for name in (f"a{number}" for number in range(10**5)) if names.setdefault(account_gid(name), name) != name
    )
    first = names[account_gid(other)]
    spec = changed(ClusterSpec(), people=(changed(ANN, account=first), changed(BOB, account=other)))
    with pytest.raises(SpecError, match="invalid value") as refused:
        check_spec(spec, roles=ROLE_NAMES)
    assert f"the group of {other!r} would have the number of that of {first!r}" in refused.value.evidence
