"""What `gpuprov run` takes as Docker's own client does."""

from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.shapes.node import Exposure
from gpuprov.spec.run_options import parse_publish, parse_restart, parse_user, refuse_same_port, resolve_variables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8080:80", Exposure(host_port=8080, node_port=80)),
        ("0.0.0.0:8080:80", Exposure(host_port=8080, node_port=80, listen="0.0.0.0")),
        ("10.0.0.7:1:65535", Exposure(host_port=1, node_port=65535, listen="10.0.0.7")),
    ],
)
def test_a_port_leads_from_this_host_alone_unless_an_address_is_named(text: str, expected: Exposure) -> None:
    assert parse_publish(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "80", "80:", ":80:80", "0:80", "80:65536", "80:80/udp", "host:80:80", "::1:80:80", "8\u0660:80", "1:2\n"],
)
def test_what_is_no_port_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="is not") as refused:
        parse_publish(text)
    assert "--publish 8080:80" in refused.value.fix


def test_a_port_of_the_host_leads_to_one_place() -> None:
    ports = [parse_publish(text) for text in ("8080:80", "8081:80")]
    refuse_same_port(ports)
    with pytest.raises(UsageError, match="port 8080 of the host is published twice"):
        refuse_same_port([*ports, parse_publish("0.0.0.0:8080:81")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, (word, 0)) for word in ("no", "on-failure", "unless-stopped", "always")),
        ("on-failure:3", ("on-failure", 3)),
    ],
)
def test_policies_are_those_of_docker(text: str, expected: tuple[str, int]) -> None:
    assert parse_restart(text) == expected


@pytest.mark.parametrize("text", ["", "never", "on-failure:", "on-failure:0", "on-failure:-1", "always:3", "No"])
def test_no_other_policy_is_taken(text: str) -> None:
    with pytest.raises(UsageError, match="is not a restart policy"):
        parse_restart(text)


@pytest.mark.parametrize("text", ["1000", "1000:1000", "www-data", "a.b_c:d"])
def test_users_and_groups_are_names_or_numbers(text: str) -> None:
    assert parse_user(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a:b:c", ":1", "1:", "-u", "a\n", "ä"])
def test_other_users_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not USER or USER:GROUP"):
        parse_user(text)


def test_variables_of_files_come_below_those_that_were_typed_and_a_name_alone_has_the_value_of_here() -> None:
    file = "# a comment\n\nA=file\n  B=two words=\r\nHERE\nGONE\nC=one\nC=two\n"
    given, unset = resolve_variables(["A=typed", "ALSO"], {"vars": file}, {"HERE": "here", "ALSO": "x\ny"})
    assert sorted(given) == ["A=typed", "ALSO=x\ny", "B=two words=", "C=two", "HERE=here"]
    assert unset == ("GONE",)


def test_what_is_typed_last_decides_whether_a_variable_is_set_or_unset() -> None:
    assert resolve_variables(["A"], {"vars": "A=1"}, {}) == ((), ("A",))
    assert resolve_variables(["A=2"], {"vars": "A"}, {}) == (("A=2",), ())


@pytest.mark.parametrize(
    ("typed", "files", "words"),
    [
        (["1x=3"], {}, "--env: '1x' is not a valid variable"),
        (["A=1", "A=2"], {}, "--env: A is set twice"),
        (["=secret"], {}, "--env: '' is not a valid variable"),
        ([], {"vars": "A=1\nb c=secret"}, "--env-file vars, line 2: 'b c' is not a valid variable"),
        ([], {"vars": "A=\0secret"}, "--env-file vars, line 1: the value of A contains a null character"),
    ],
)
def test_what_cannot_be_set_is_refused_with_its_place_and_without_its_value(
    typed: list[str], files: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_variables(typed, files, {})
    assert refused.value.what == words
    assert "secret" not in f"{refused.value}{refused.value.evidence}{refused.value.fix}"
