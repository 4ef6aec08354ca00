from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

import pytest

import gpuprov.verify
from gpuprov.cli.verbs import VERBS
from gpuprov.core.catalogue import FIELDS, find_entries, find_fix, load_catalogue
from gpuprov.machine import examine as doctor
from gpuprov.machine import findings as host_findings
from gpuprov.machine import gpu_findings, role_needs
from gpuprov.verify.chain import BETWEEN_CHAIN, HOST_CHAIN
from tests.fakes.chain import CHAIN
from tests.sources import nodes_of, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOGUE = load_catalogue()
LINES: dict[str, list[str]] = json.loads((Path(__file__).parent / "data" / "log_lines.json").read_text())
PASTED = json.loads((Path(__file__).parent / "data" / "pasted_lines.json").read_text())
TROUBLES = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()
# What goes wrong for people who run GPUs in LXD or Docker with Slurm, and the entry that knows it
FAILURES = {
    "NVML: Unknown Error after a while": "gpu-taken-away",
    "driver and library of different versions": "driver-mismatch",
    "cuInit 999 while nvidia-smi works": "cuda-999",
    "gres.conf, slurm.conf and the devices disagree": "slurm-gres-count",
    "slurmd will not start: cgroup, D-Bus": "slurmd-cgroup",
    "a node down or drained": "slurm-node-drained",
    "munge: expired, rewound or invalid credential": "munge-credential",
    "mount hooks of the container toolkit": "gpu-hook",
    "Docker in an unprivileged container": "nested-docker",
    "wrong or too many GPUs": "wrong-gpus",
    "no range of ids, nobody:nogroup": "id-range",
    "FORWARD DROP, subnets that clash, macvlan": "network-cut",
    "half-built images": "half-built-image",
    "the daemon does not run, or not for this user": "engine-unreachable",
    "a node that does not start, or died": "node-does-not-start",
    "leftovers after power loss": "leftovers",
    "a spec that a newer version recorded": "recorded-spec",
}
XIDS = {8, 13, 31, 32, 43, 45, 48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 109, 119, 120, 140, 149, 154}


def ids_of(kind: str) -> set[str]:
    return {entry.id for entry in CATALOGUE.values() if entry.kind == kind}


def emitted_ids(source: str) -> Iterator[str]:
    """Ids of findings in a module: `HostFinding(id="x")`, and what is handed to functions as their argument `check`."""
    tree = ast.parse(source)
    places = {
        function.name: [argument.arg for argument in function.args.args].index("check")
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and "check" in [argument.arg for argument in function.args.args]
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        given: list[ast.expr] = []
        if call.func.id == "HostFinding":
            given = [word.value for word in call.keywords if word.arg == "id"]
        elif call.func.id in places:
            given = [call.args[places[call.func.id]]]
        for value in given:
            if isinstance(value, ast.Constant):
                yield str(value.value)
            else:
                assert isinstance(value, ast.Name), f"cannot tell the id in {ast.unparse(call)}"
                assert value.id == "check", f"cannot tell the id in {ast.unparse(call)}"


def test_every_check_of_verify_is_in_it_and_no_other() -> None:
    assert ids_of("verify") == {rule.id for rule in (*HOST_CHAIN, *BETWEEN_CHAIN, *CHAIN)}


def test_every_finding_of_doctor_is_in_it_and_no_other() -> None:
    emitted = {
        name for module in (host_findings, gpu_findings, role_needs) for name in emitted_ids(inspect.getsource(module))
    }
    assert {"kernel", "storage-room", "private-subnet", "uvm"} <= emitted
    assert ids_of("doctor") == emitted


def test_fixes_are_in_it_and_not_in_the_code_of_checks() -> None:
    """A check names a situation, and that has a text; every text is of a situation that some check names."""
    folders = [Path(module.__file__).parent for module in (gpuprov.verify, doctor) if module.__file__]
    trees = [parsed(path) for folder in folders for path in folder.rglob("*.py")]
    named = {word for tree in trees for word in situations(tree)}
    assert {word for word in named if " " in word} == set(), "a fix is written in code"
    known = {situation for entry in CATALOGUE.values() for situation in entry.fixes}
    elsewhere = {f"{name}/{situation}" for name, entry in CATALOGUE.items() for situation in ("", *entry.fixes)}
    assert {word for word in named if "/" in word} <= elsewhere
    assert {word for word in named if "/" not in word} - {""} <= known
    constants = {str(node.value) for tree in trees for node in nodes_of(tree) if isinstance(node, ast.Constant)}
    used = {word.rpartition("/")[2] for word in constants} | {f"code-{number}" for number in (4, 9, 12, 15, 18, 999)}
    assert known <= used


def situations(tree: ast.Module) -> Iterator[str]:
    """The situations that calls of failed, unknown, warned and find_fix name as constants."""
    places = {"failed": 1, "unknown": 1, "warned": 1, "find_fix": 0}
    for call in nodes_of(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in places:
            for given in call.args[places[call.func.id] : places[call.func.id] + 1]:
                if not isinstance(given, ast.JoinedStr):
                    yield from (str(node.value) for node in ast.walk(given) if isinstance(node, ast.Constant))


def test_a_fix_is_filled_in_where_it_is_known() -> None:
    assert find_fix("", "node-running", node="c001") == "gpuprov start c001"
    assert find_fix("node-answers/hangs", "device-open", node="c001") == "gpuprov shell c001"
    assert CATALOGUE["node-running"].advise() == "gpuprov start NODE"
    assert find_fix("code-77", "nvml-answers") == CATALOGUE["nvml-answers"].advise()


def test_every_failure_and_error_number_has_a_line_that_it_is_found_by() -> None:
    assert set(FAILURES.values()) <= ids_of("failure")
    assert ids_of("xid") == {f"xid-{number}" for number in XIDS} | {"xid-other"}
    plain = {f"xid-{number}" for number in (8, 32, 45, 61, 69, 140)}
    assert ids_of("failure") | ids_of("xid") <= set(LINES) | {name for name, _ in PASTED["known"]} | plain


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_a_log_finds_its_entry(name: str) -> None:
    for line in LINES[name]:
        found = [entry.id for entry in find_entries(line, CATALOGUE)]
        assert name in found, line
        if name.startswith("xid"):
            assert found[0] == name, line
            assert [other for other in found if other.startswith("xid")] == [name], line


@pytest.mark.parametrize(
    "line",
    ["", "all is well", "kernel", "slurmd: debug:  Job 7 finished", "lxc start c000", "xid", "0 errors, 79 tests"],
)
def test_an_ordinary_line_is_no_failure(line: str) -> None:
    assert [entry.id for entry in find_entries(line, CATALOGUE) if entry.kind in ("failure", "xid")] == []


def test_every_entry_says_everything() -> None:
    for name, entry in CATALOGUE.items():
        assert re.fullmatch(r"[a-z0-9-]+", name), name
        assert all((entry.title, entry.cause, entry.see, entry.fix)), name
        assert "\n" not in entry.title, name
        assert all(entry.fixes.values()), name
        for template in (entry.fix, *entry.fixes.values()):
            fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
            assert fields <= set(FIELDS), f"{name}: {template}"
        assert set(entry.also) <= set(CATALOGUE) - {name}, name
        for pattern in entry.patterns:
            assert re.compile(pattern).search("") is None, f"{name}: {pattern} fits everything"


def test_entries_name_only_verbs_that_exist() -> None:
    groups = {path for path, verb in VERBS.items() if verb.module is None}
    for name, entry in CATALOGUE.items():
        for text in (entry.cause, entry.see, entry.fix, *entry.fixes.values()):
            for first, second in re.findall(r"gpuprov ([a-z-]+)(?: ([a-z]+))?", text):
                assert (f"{first} {second}" if first in groups else first) in VERBS, f"{name}: {text}"


def test_what_the_document_about_troubles_quotes_is_in_it() -> None:
    quoted = re.findall(r"^\*\*[^*`]*`([^`]+)`", TROUBLES, re.MULTILINE)
    assert quoted
    assert [line for line in quoted if not find_entries(line, CATALOGUE)] == []


def test_an_id_finds_its_own_entry_alone() -> None:
    assert [entry.id for entry in find_entries(" Device-Open ", CATALOGUE)] == ["device-open"]
    assert [entry.id for entry in find_entries("kernel", CATALOGUE)] == ["kernel"]


def test_a_line_of_verify_finds_the_check_that_it_names() -> None:
    line = "c001: devices: device-open: access is denied: /dev/nvidia0: EPERM"
    assert [entry.id for entry in find_entries(line, CATALOGUE)] == ["device-open"]


def test_failures_come_before_checks() -> None:
    kinds = [entry.kind for entry in find_entries(LINES["slurm-gres-count"][-1], CATALOGUE)]
    assert kinds == ["failure", "verify"]


@pytest.mark.parametrize(("name", "line"), PASTED["known"])
def test_a_line_that_people_paste_finds_its_entry_and_little_else(name: str, line: str) -> None:
    found = [entry.id for entry in find_entries(line, CATALOGUE)]
    assert name in found
    assert len(found) <= 2


@pytest.mark.parametrize("line", PASTED["unknown"])
def test_what_is_no_failure_has_no_entry(line: str) -> None:
    assert find_entries(line, CATALOGUE) == ()


@pytest.mark.slow
def test_each_line_of_a_long_log_is_explained_once() -> None:
    lines = [line for _, line in PASTED["known"]]
    quiet = [f"step {number}: all is well" for number in range(1000)]
    found = [entry.id for entry in find_entries("\n".join([*lines, *quiet, *lines]), CATALOGUE)]
    assert len(found) == len(set(found))
    assert {name for name, _ in PASTED["known"]} <= set(found)


def test_a_message_over_several_lines_is_explained() -> None:
    text = (
        "NVRM: The NVIDIA GPU 0000:41:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.\n"
    )
    assert [entry.id for entry in find_entries(text, CATALOGUE)] == ["host-bus"]
