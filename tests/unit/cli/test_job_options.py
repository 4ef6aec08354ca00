"""`--drain` and `--force`: what is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.core.outcome import Outcome
from gpuprov.lifecycle.leaving import JobsPolicy
from tests.fakes.slurm import FakeJob

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed


@pytest.fixture
def busy(typed: Typed) -> Typed:
    """Two nodes; a job runs on one of them, another waits."""
    typed.world.begin_with(2)
    typed.world.slurm.queue = [FakeJob(id="17", nodes="c001"), FakeJob(id="18", state="PD")]
    return typed


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ([], JobsPolicy()),
        (["--force"], JobsPolicy(force=True)),
        (["--drain"], JobsPolicy(drain_s=3600.0)),
        (["--drain", "10m"], JobsPolicy(drain_s=600.0)),
        (["--drain=90", "--force"], JobsPolicy(force=True, drain_s=90.0)),
    ],
)
def test_the_policy_is_what_was_typed(
    busy: Typed,
    options: list[str],
    policy: JobsPolicy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard: list[JobsPolicy] = []

    def stop(*_: object, policy: JobsPolicy, **__: object) -> object:
        heard.append(policy)
        return Outcome()

    monkeypatch.setattr("gpuprov.fleet.member.nodes.stop_nodes", stop)
    busy(["stop", "c001", *options], capsys)
    assert [(one.force, one.drain_s) for one in heard] == [(policy.force, policy.drain_s)]


@pytest.mark.parametrize("given", [["--drain", "c001"], ["--drain=0"], ["--drain=9000h"], ["--drain="]])
def test_a_time_that_is_none_is_refused(busy: Typed, given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", *given, "c001"][: 2 + len(given)], host=busy.world.host) == 2
    said = capsys.readouterr().err
    assert "is not a valid duration" in said or "c001" in said
    assert busy.world.engine.nodes["c001"].status == "running"


@pytest.mark.parametrize("verb", [["rm", "c001"], ["stop", "c001"], ["cluster", "up", "-n", "1"], ["cluster", "down"]])
def test_without_options_the_job_is_named_and_both_ways_out(
    busy: Typed, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = busy.world.engine.dump()
    busy([*verb, "--gpu-mode", "simulated"] if "up" in verb else verb, capsys, codes=(2,))
    assert main(verb if "up" not in verb else [*verb, "--gpu-mode", "simulated"], host=busy.world.host) == 2
    said = capsys.readouterr().err
    assert "job 17 of alice (train) on c001" in said
    assert "--drain" in said
    assert "--force" in said
    assert busy.world.engine.dump() == before
