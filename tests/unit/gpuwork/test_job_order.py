"""What may be handed in, and that everything that is wrong with it is told at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuprov.shapes.base import encode
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.limits import LEAST_BYTES, LONGEST_S
from gpuprov.shapes.limits import MOST_BYTES as MOST_MEMORY
from gpuwork.jobs.order import MOST_BYTES, parse_order
from tests.unit.gpuwork.conftest import render_order

SCHEMA = "gpuprov.job-order/v1"
KNOWN = "schema, version, command, function, arguments, project, name, count, at_most, time_limit_s, memory_bytes"
KNOWN += ", gpus, retries, after, notify, partition, qos, shards, gpu_type"


def faults_of(content: bytes | dict[str, Any]) -> list[str]:
    told = content if isinstance(content, bytes) else json.dumps({"schema": SCHEMA, "version": 1, **content}).encode()
    return [str(fault) for fault in parse_order(told)[1]]


def parsed(content: bytes) -> JobOrder:
    order, faults = parse_order(content)
    assert faults == []
    assert order is not None
    return order


def test_what_is_not_said_has_its_default() -> None:
    least = json.dumps({"schema": SCHEMA, "version": 1, "command": ["true"]}).encode()
    assert parsed(least) == JobOrder(command=("true",), gpus=1, retries=0, count=None, project=None)


@pytest.mark.parametrize(
    ("key", "least", "most"), [("time_limit_s", 1, LONGEST_S), ("memory_bytes", LEAST_BYTES, MOST_MEMORY)]
)
def test_the_limits_of_a_spec_can_be_ordered_and_no_others(key: str, least: int, most: int) -> None:
    values = (least - 1, least, most, most + 1)
    assert [len(faults_of({"command": ["true"], key: value})) for value in values] == [1, 0, 0, 1]


def test_an_order_that_is_kept_comes_back_as_it_was() -> None:
    order = parsed(
        render_order(
            function="app.tasks:train", arguments={"units": [1, {"a": None}]}, project="/p", name="sweep", count=100,
            at_most=8, time_limit_s=60, memory_bytes=2**30, gpus=2, retries=3,
        )
    )  # fmt: skip
    assert parsed(encode(order)) == order


def test_the_number_of_a_run_takes_its_place_in_each_word_if_there_is_a_count() -> None:
    counted = parsed(render_order("python3", "seed.py", "{n}", "--out=run-{n}-{n}", count=100))
    assert counted.command_of(7) == ["python3", "seed.py", "7", "--out=run-7-7"]
    assert parsed(render_order("awk", "{n}")).command_of(0) == ["awk", "{n}"]


def test_the_number_of_a_run_is_a_number_where_it_is_all_of_an_argument() -> None:
    arguments = {"seed": "{n}", "out": "run-{n}", "sizes": ["{n}"], "lr": 0.1}
    order = parsed(render_order(function="app:fn", arguments=arguments, project="/p", count=10))
    assert order.arguments_of(3) == {"seed": 3, "out": "run-3", "sizes": ["{n}"], "lr": 0.1}


@pytest.mark.parametrize(
    ("order", "title"),
    [
        (JobOrder(command=("/usr/bin/python3", "x")), "x"),
        (JobOrder(command=("ev\nil;|{n}",)), "ev_il___n_"),
        (JobOrder(function="app.tasks:train"), "app.tasks:train"),
        (JobOrder(command=("x",), name="sweep"), "sweep"),
    ],
)
def test_a_job_without_a_name_is_called_after_what_it_runs(order: JobOrder, title: str) -> None:
    assert order.title == title


def test_all_faults_are_told_at_once() -> None:
    assert faults_of(
        {
            "comand": ["true"],
            "name": "a b",
            "project": "relative",
            "count": 0,
            "at_most": True,
            "time_limit_s": 1.5,
            "memory_bytes": "1G",
            "gpus": 65,
            "retries": -1,
            "function": "app.tasks",
        }
    ) == [
        f"order: comand: is not known; did you mean command? (allowed: {KNOWN})",
        "order: name: is 'a b' (allowed: letters, digits, . _ and -, 64 at most)",
        "order: project: is 'relative' (allowed: the absolute path of a folder)",
        "order: count: is 0 (allowed: 1 to 10,000)",
        "order: at_most: is true (allowed: a whole number, 1 to 10,000, or null)",
        "order: time_limit_s: is 1.5 (allowed: a whole number, 1 to 31,536,000 seconds, or null)",
        "order: memory_bytes: is '1G' (allowed: a whole number, 1 MiB to 1 PiB, or null)",
        "order: gpus: is 65 (allowed: 0 to 64)",
        "order: retries: is -1 (allowed: 0 to 100)",
        "order: function: is 'app.tasks' (allowed: MODULE:FUNCTION, such as app.tasks:train)",
    ]


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ({}, "order: command: is missing, and so is function (allowed: one of them)"),
        (
            {"command": ["true"], "function": "a:b", "project": "/p"},
            "order: command: is given beside a function (allowed: one of them)",
        ),
        ({"function": "a:b"}, "order: project: is missing (allowed: the folder that has the function)"),
        ({"command": ["true"], "arguments": {"a": 1}}, "order: arguments: is given without a function"),
        ({"command": ["true"], "at_most": 2}, "order: at_most: is given without a count"),
        ({"command": ["", "x"]}, "order: command: begins with an empty word"),
        ({"command": ["x\0"]}, "order: command: has a NUL character"),
        ({"command": ["x", 1]}, "order: command[1]: is 1 (use quotes if it is text) (allowed: text)"),
        (
            {"command": "true"},
            'order: command: is \'true\' (allowed: a list of words, such as ["python3", "train.py"])',
        ),
        (
            {"function": "a.:b", "project": "/p"},
            "order: function: is 'a.:b' (allowed: MODULE:FUNCTION, such as app.tasks:train)",
        ),
        (
            {"command": ["x", "a" * 200_000]},
            "order: command: has a word that is longer than the kernel allows (allowed: 131,071 bytes)",
        ),
        ({"command": ["x"] * 10_001}, "order: command: has 10,001 items (allowed: at most 10,000)"),
        (
            {"function": "a:b", "project": "/p", "arguments": {"a b": 1}},
            "order: arguments.'a b': is not a name of Python's",
        ),
        (
            {"function": "a:b", "project": "/p", "arguments": {"a": [[[[[[[[[1]]]]]]]]]}},
            "order: arguments.a: is nested more than 8 deep",
        ),
        ({"command": ["x"], "version": 2}, "order: version: is 2 (allowed: 1)"),
    ],
)
def test_one_fault(order: dict[str, Any], fault: str) -> None:
    assert faults_of(order) == [fault]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not valid JSON"),
        (b"[]", "is not a JSON object"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"schema": 1, "schema": 2}', "has a key twice: schema"),
        (b'{"count": NaN}', "has NaN, which is not JSON"),
        (b'{"count": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"\xff\xfe\x00", "is not valid JSON"),
        (b'{"command": ["\\ud800"]}', "has text that is not UTF-8"),
        (b" " * (MOST_BYTES + 1), "has more than 1,048,576 bytes"),
        (b"{}", "order: schema: is missing (allowed: gpuprov.job-order/v1)"),
    ],
)
def test_what_is_no_order_at_all(content: bytes, words: str) -> None:
    assert words in "\n".join(faults_of(content))


def test_two_thousand_parameters_are_an_order() -> None:
    arguments = {f"parameter_{number}": number for number in range(2000)}
    order = parsed(render_order(function="app:fn", arguments=arguments, project="/p"))
    assert len(order.arguments_of(0)) == 2000
