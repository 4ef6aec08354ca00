"""`sssd` of a spec: which files can be a site's sssd.conf, and what is said of others without a word of theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.fleet.site_file import read_for_hosts
from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.load import read_draft
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError, in_spec
from gpuprov.spec.sssd import MOST_BYTES, complete_sssd, find_sssd_problems

if TYPE_CHECKING:
    from pathlib import Path

CONF = """\
# of the site
[sssd]
domains = site, other
services = nss, pam, ssh

[domain/site]
id_provider = ldap
ldap_uri = ldaps://a.example,
    ldaps://b.example
ldap_default_authtok = hunter2

[domain/other]
id_provider = files
"""


def load(folder: Path, more: str = "") -> ClusterSpec:
    text = f"version: gpuprov/v1\nsssd: sssd.conf\n{more}"
    return read_draft(text, name="lab.yaml", roles=ROLE_NAMES, folder=folder).spec


def faults(folder: Path, more: str = "") -> list[str]:
    with pytest.raises(SpecError) as refused:
        load(folder, more)
    assert "hunter2" not in str(refused.value) + repr(refused.value.problems)
    return [in_spec(problem) for problem in refused.value.problems]


def test_its_place_alone_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "sssd.conf").write_text(CONF)
    spec = load(tmp_path)
    assert spec.sssd == str(tmp_path / "sssd.conf")
    assert "hunter2" not in dump_spec(spec)
    assert load_spec_json(dump_spec(spec), cluster="lab") == spec
    assert "sssd" not in json.loads(dump_spec(ClusterSpec()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no section [sssd]"),
        ("[nss]\n", "has no section [sssd]"),
        ("password = hunter2\n[sssd]\n", "line 1 is in no section"),
        ("[sssd]\ndomains = a\nhunter2\n", "line 3 is neither a section nor KEY = VALUE"),
        ("[sssd]\nservices = nss\n", "lists no domains in [sssd]"),
        ("[sssd]\ndomains = " + ",".join(f"d{number}" for number in range(21)), "lists 21 domains in [sssd]"),
        ("[sssd]\ndomains = a, b\n[domain/a]\nid_provider = ldap\n", "has no section [domain/b]"),
        ("[sssd]\ndomains = a\n[domain/a]\nldap_uri = ldap://x\n", "[domain/a] has no id_provider"),
        ("[sssd]\ndomains = a\n[domain/a]\nid_provider =\n", "[domain/a] has no id_provider"),
        (CONF.replace("nss, pam", "pam"), "`services` in [sssd] lacks nss: nodes would know nobody"),
        ("[sssd]\ndomains = " + "x" * 300, "lists a domain in [sssd] whose name is too long, or not printable"),
    ],
)
def test_what_would_leave_nodes_without_anybody_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert find_sssd_problems(text) == [said]
    (tmp_path / "sssd.conf").write_text(text)
    (problem,) = faults(tmp_path)
    assert problem.startswith(f"sssd: line 2: {tmp_path / 'sssd.conf'} {said} (allowed: a sssd.conf of the host")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sssd.conf"
    assert "cannot be read: No such file" in faults(tmp_path)[0]
    path.mkdir()
    assert "is no file" in faults(tmp_path)[0]
    path.rmdir()
    path.write_bytes(b"[sssd]\n\xff")
    assert "is not UTF-8 text" in faults(tmp_path)[0]
    path.write_text("#" * (MOST_BYTES + 1))
    assert "has more than 64 KiB" in faults(tmp_path)[0]


def test_a_provider_needs_its_package(tmp_path: Path) -> None:
    (tmp_path / "sssd.conf").write_text(CONF.replace("= ldap\n", "= ad\n"))
    (problem,) = faults(tmp_path)
    assert problem == "image.packages: lacks sssd-ad, which the provider ad of sssd needs (allowed: with sssd-ad)"
    assert load(tmp_path, "image: {packages: [sssd-ad]}\n").image.packages == ("sssd-ad",)


def test_hosts_are_sent_it_and_need_not_have_it(tmp_path: Path) -> None:
    spec = load(tmp_path, "hosts: [{name: a}]\n")
    assert spec.sssd == str(tmp_path / "sssd.conf")
    with pytest.raises(UsageError, match=r"the hosts of cluster lab cannot be sent its sssd\.conf") as refused:
        read_for_hosts(spec)
    assert refused.value.evidence.endswith("sssd.conf cannot be read: No such file or directory")
    (tmp_path / "sssd.conf").write_text(CONF)
    assert (read_for_hosts(spec), read_for_hosts(ClusterSpec())) == (CONF, "")
    (tmp_path / "sssd.conf").write_text("hunter2\n[sssd]\n")
    with pytest.raises(UsageError) as refused:
        read_for_hosts(spec)
    assert "line 1 is in no section" in refused.value.evidence
    assert "hunter2" not in str(vars(refused.value))


def test_homes_are_in_the_shared_folder_and_services_those_that_names_need() -> None:
    assert complete_sssd(CONF, shared=True).split("\n\n") == [
        "[domain/site]\noverride_homedir = /shared/home/%u",
        "[domain/other]\noverride_homedir = /shared/home/%u\n",
    ]
    assert complete_sssd(CONF.replace("services", "# "), shared=False) == "[sssd]\nservices = nss, pam\n"
    assert complete_sssd(CONF, shared=False) == "# nothing\n"
