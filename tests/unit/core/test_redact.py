from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpuprov.core.redact import (
    HIDDEN,
    hide_command,
    hide_in_document,
    hide_in_words,
    hide_secrets,
    is_secret,
    secret_values,
)
from tests.own_time import own_time

CASES = json.loads((Path(__file__).parent / "data" / "secrets.json").read_text())
KEY = bytes(range(120, 248))
_LIMIT_S = 5


@pytest.mark.parametrize(("text", "secret"), CASES["hidden"].values(), ids=CASES["hidden"].keys())
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret in text
    hidden = hide_secrets(text)
    assert secret not in hidden
    assert HIDDEN in hidden


@pytest.mark.parametrize("text", CASES["kept"])
def test_what_is_none_stays(text: str) -> None:
    assert hide_secrets(text) == text


@pytest.mark.parametrize(
    "name", ["\u017fecret", "to\u212aen", "credent\u0131al", "PA\u017f\u017fWORD", "Ba\u017fic ", "BEARER "]
)
def test_letters_that_are_others_in_another_case_hide_nothing(name: str) -> None:
    text = f"{name}{'' if name.endswith(' ') else '='}hunter2hunter2"
    assert "hunter2" not in hide_secrets(text)


def test_a_document_stays_one() -> None:
    document = {"token": 'a "b" \\ c', "list": [{"api_key": "x" * 9, "name": "c000"}], "passwords": "p1, p2"}
    hidden = json.loads(hide_secrets(json.dumps(document, indent=2)))
    assert hidden == {"token": HIDDEN, "list": [{"api_key": HIDDEN, "name": "c000"}], "passwords": HIDDEN}


@pytest.mark.parametrize(
    "form", [KEY.hex(), KEY.hex().upper(), base64.b64encode(KEY).decode(), KEY.decode("utf-8", "replace")]
)
def test_a_known_secret_is_hidden_in_every_form(form: str) -> None:
    assert hide_secrets(f"before {form} after", [KEY]) == f"before {HIDDEN} after"


def test_a_known_secret_is_hidden_however_it_is_quoted() -> None:
    secret = 'it\'s "two" w\u00f6rds'
    for form in (shlex.quote(secret), repr(secret), json.dumps(secret), json.dumps(json.dumps([secret]))):
        hidden = hide_secrets(f"before {form} after", [secret.encode()])
        assert HIDDEN in hidden
        assert "two" not in hidden


def test_of_two_known_secrets_the_longer_one_goes_first() -> None:
    assert hide_secrets("hunter2hunter2-more", [b"hunter2hunter2", b"hunter2hunter2-more"]) == HIDDEN


def test_a_document_is_searched_to_the_end_of_each_value() -> None:
    order = {"environment": ["DB_PASSWORD=p w", "PGPASS=s,t;u", "A=b c"], "name": "c000"}
    document = {
        "environment": {"MYSQL_PWD": "ab", "A": "b"},
        "labels": {"gpuprov.order": json.dumps(order), "gpuprov.role": "plain"},
        "settings": {"environment.MYSQL_PWD": {"value": "ab", "live": False}, "limits.cpu": {"value": "2"}},
    }
    hidden: Any = hide_in_document(document)
    assert hidden["environment"] == {"MYSQL_PWD": HIDDEN, "A": "b"}
    assert hidden["settings"] == {
        "environment.MYSQL_PWD": {"value": HIDDEN, "live": False},
        "limits.cpu": {"value": "2"},
    }
    assert hidden["labels"]["gpuprov.role"] == "plain"
    assert json.loads(hidden["labels"]["gpuprov.order"]) == {
        "environment": [f"DB_PASSWORD={HIDDEN}", f"PGPASS={HIDDEN}", "A=b c"],
        "name": "c000",
    }


def test_arguments_are_hidden_to_their_ends() -> None:
    words = ["-e", "DB_PASSWORD=two 'w'\nords", "--env=MYSQL_PWD=a b", "-eT_TOKEN=c", "--password", "p q", "-n", "4"]
    expected = ["-e", "DB_PASSWORD=#", "--env=MYSQL_PWD=#", "-eT_TOKEN=#", "--password", "#", "-n", "4"]
    assert hide_in_words(words) == [word.replace("#", HIDDEN) for word in expected]


def test_a_line_of_a_known_key_is_hidden_without_its_frame() -> None:
    key = (
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQyNTUxOQ\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    assert "b3BlbnNzaC1rZXktdjEAAAAA" not in hide_secrets("log: b3BlbnNzaC1rZXktdjEAAAAA", [key])


def test_a_binary_key_has_no_lines() -> None:
    key = b"/etc/munge/munge.key\n10.0.3.3\n" + bytes(range(100))
    assert hide_secrets("10.0.3.3 /etc/munge/munge.key", keys=[key]) == "10.0.3.3 /etc/munge/munge.key"
    for form in (key.decode(), repr(key.decode()), key.hex(), base64.b64encode(key).decode(), json.dumps(key.decode())):
        assert "munge" not in hide_secrets(f"before {form} after", keys=[key])
        assert HIDDEN in hide_secrets(f"before {form} after", keys=[key])


@pytest.mark.parametrize("mark", ["hf_", "ghp_", "AKIA", "xoxb-", "glpat-"])
def test_the_shortest_token_with_a_mark_is_hidden(mark: str) -> None:
    assert hide_secrets(mark + "a" * 16) == HIDDEN
    assert hide_secrets(mark + "a" * 15) == mark + "a" * 15


@pytest.mark.parametrize("unit", ["token.", "--token", "eyJ-", r"\\\"token=", "a."])
def test_a_long_line_that_looks_like_secrets_does_not_take_hours(unit: str) -> None:
    with own_time(_LIMIT_S):
        hide_secrets(unit * (100_000 // len(unit)))


def test_short_values_would_be_found_in_innocent_words() -> None:
    assert hide_secrets("the lab is up", [b"lab"]) == "the lab is up"


@pytest.mark.parametrize("name", ["MYSQL_PWD", "PGPASS", "PASS", "DB_PASS", "db-pass", "SIGNING_KEY"])
def test_names_that_end_like_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "BYPASS", "COMPASS", "pass", "PASSED", "HOSTKEY", "keys", "PATH"])
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret(name)


def test_variables_are_judged_by_their_names() -> None:
    environment = {"GITHUB_TOKEN": "abc", "AWS_SECRET_ACCESS_KEY": "def", "PATH": "/bin", "EMPTY_PASSWORD": ""}
    assert secret_values(environment) == (b"abc", b"def")


@pytest.mark.parametrize(
    "given",
    [
        ("-e", "COLOUR=hunter2 xyzzy"),
        ("-eCOLOUR=hunter2\nxyzzy",),
        ("-qeCOLOUR=hunter2=xyzzy",),
        ("--env", "COLOUR=hunter2"),
        ("--env=COLOUR=hunter2",),
        ("--token", "hunter2"),
        ("--", "env", "COLOUR=hunter2", "curl", "https://me:hunter2@example.org"),
    ],
    ids=" ".join,
)
def test_a_command_is_told_without_the_values_of_its_variables(given: tuple[str, ...]) -> None:
    told = hide_command(["create-node", "x", *given, "--gpus=0,1", "--engine", "lxd"])
    assert "hunter2" not in told
    assert "xyzzy" not in told
    assert told.startswith(f"create-node x {given[0].partition('=')[0]}")
    assert told.endswith(" --gpus=0,1 --engine lxd")
    assert HIDDEN in told
