"""What an error suggests helps: each command of ours in a fix is run in the state in which it is suggested."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.catalogue import load_catalogue
from gpuprov.roles.slurm import daemons
from tests.fakes.driver import FakeDriver
from tests.suggestions import Site, commands, find_sites, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conftest import Ledger
    from tests.unit.cli.conftest import Typed
from tests.unit.cli.suggestion_cases import CASES, REASONS, STATES
from tests.unit.cli.suggestion_stage import (
    LAB,
    Argv,
    Case,
    Stage,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HOST_KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr\n"
# Verbs that tests of their own run: here their commands are parsed only
PARSED = {
    "doctor": "examines this machine",
    "host": "changes this machine",
    "smoke": "runs kernels on this machine or in nodes",
    "bundle": "collects what this machine has",
    "cdi": "writes for engines of this machine",
    "play": "runs Ansible",
    "run": "leases GPUs for a command",
}


@pytest.fixture
def stage(typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for place in ("gpuprov.stories.enter_node", "tests.fakes.driver"):
        monkeypatch.setattr(f"{place}.run_attached", lambda argv: int(not argv))
    monkeypatch.setattr("gpuprov.stories.enter_node.ensure_ssh_key", lambda _cluster: "ssh-ed25519 AAAA x")
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/gpuprov/lab").mkdir(parents=True, exist_ok=True)
    pull = FakeDriver.pull
    monkeypatch.setattr(
        FakeDriver,
        "pull",
        lambda driver, name, path, **limits: HOST_KEY if "ssh_host" in path else pull(driver, name, path, **limits),
    )
    file = tmp_path / "lab.yaml"
    file.write_text("version: gpuprov/v1\nname: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\n")
    return Stage(typed, capsys, file)


def act(stage: Stage, steps: Sequence[Argv | Callable[[Stage], object]]) -> None:
    for step in steps:
        if callable(step):
            step(stage)
        else:
            code, what, _ = stage.type(step)
            assert code == 0, f"{step}: {what}"


def site_of(case: Case) -> Site:
    found = [site for site in find_sites() if str(site).startswith(case.site)]
    assert found, f"nothing in the source begins so: {case.site}"
    return min(found, key=lambda site: len(str(site)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_suggested_helps(case: Case, stage: Stage, ledger: Ledger) -> None:
    act(stage, case.before)
    if case.told:
        what, fix = "", case.told(stage)
    else:
        _, what, fix = stage.type(case.argv)
    assert site_of(case).covers(fix), fix
    suggested = commands(fix)
    assert suggested
    for argv in suggested:
        parse(argv)
        if argv[0] not in PARSED:
            code, new, _ = stage.follow(argv)
            helped = code == 0 or bool(new and new != what)
            ledger.add("suggestion", error=case.site, command=shown(argv), helped=helped)
            assert helped, f"{argv}: {new}"
    if case.cures:
        code, new, _ = stage.type(case.argv)
        assert code == 0, new


def shown(argv: Sequence[str]) -> str:
    return f"gpuprov {' '.join(argv)}"


def test_every_suggestion_has_a_case_or_a_reason_why_not() -> None:
    tried = {site_of(case) for case in CASES}
    here = [site for site in find_sites() if not site.file.startswith("core/catalogue.json") and commands(site.sample)]
    left = [str(site) for site in here if site not in tried]
    left = [text for text in left if not text.startswith(tuple(REASONS))]
    assert left == []
    assert [prefix for prefix in REASONS if not any(str(site).startswith(prefix) for site in find_sites())] == []
    named = re.findall(r"tests/[\w/.]+", " ".join(REASONS.values()))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_command_that_is_suggested_parses() -> None:
    found = [(site, argv) for site in find_sites() for argv in commands(site.sample)]
    assert len(found) > 200
    for _, argv in found:
        parse(argv)


@pytest.mark.parametrize("wrong", ["gpuprov lst", "gpuprov cluster plan with other values", "x: gpuprov rm --all"])
def test_a_command_that_there_is_not_is_noticed(wrong: str) -> None:
    with pytest.raises(Exception, match=r"verb|unexpected|option|argument"):
        for argv in commands(wrong):
            parse(argv)


def entries() -> Iterator[tuple[str, str]]:
    for name, entry in load_catalogue().items():
        for situation in ("", *entry.fixes):
            if commands(entry.advise(situation)):
                yield name, situation


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "situation"), [*entries()])
def test_what_the_catalogue_says_helps(name: str, situation: str, stage: Stage, ledger: Ledger) -> None:
    act(stage, (*LAB, *STATES.get(name, ())))
    entry, uuid = load_catalogue()[name], stage.world.gpus.gpus[0].uuid
    where = "fake" if name in STATES else "fake, in a healthy cluster"
    fix = entry.advise(situation, node="c001", uuid=uuid, xid=79).replace("GPU-...", uuid)
    for argv in commands(fix):
        parse(argv)
        if argv[0] in PARSED:
            continue
        code, what, _ = stage.follow(argv)
        helped = code == 0 or bool(entry.patterns and not entry.matches(what))  # it says something new
        error = f"{name} {situation}".strip()
        ledger.add("suggestion", where=where, error=error, command=shown(argv), helped=helped)
        assert helped, f"{argv}: {what}"
