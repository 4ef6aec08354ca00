from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.gpu.xids import load_actions
from gpuprov.stories.explain import LENGTH_MAX, explain


def test_a_line_is_explained() -> None:
    (entry,) = explain("slurmctld: error: gres/gpu count reported lower than configured (0 < 1)")
    assert entry.id == "slurm-gres-count"


def test_what_nobody_knows_is_said_without_a_guess() -> None:
    with pytest.raises(UsageError, match="there is no entry for 'slurm-gress'") as caught:
        explain("slurm-gress")
    assert caught.value.exit_code == 2
    assert "slurm-gres," not in caught.value.evidence
    assert caught.value.fix.startswith("gpuprov doctor; gpuprov verify ")


@pytest.mark.parametrize("number", [number for numbers in load_actions()["actions"].values() for number in numbers])
def test_every_xid_that_verify_knows_is_explained(number: int) -> None:
    (entry, *_) = explain(f"NVRM: Xid (PCI:0000:41:00): {number}, pid=4711, name=python3, Ch 00000008")
    assert entry.kind == "xid"
    assert str(number) in entry.title or 144 <= number <= 150
    assert not entry.fix.startswith("look the number up")
    assert entry.fixes == {}


def test_an_xid_that_nobody_knows_asks_for_a_person() -> None:
    (entry,) = explain("NVRM: Xid (PCI:0000:41:00): 4321, something new")
    assert entry.title.startswith("Xid 4321")
    assert entry.fix.startswith("take the GPU out of use and inspect it")


def test_a_number_alone_is_an_xid_or_an_exit_status() -> None:
    assert [entry.id for entry in explain("154")] == ["xid-154"]
    assert explain(" 168\n")[0].title.startswith("Xid 168")
    assert [entry.id for entry in explain("137")] == ["xid-other", "out-of-memory"]
    for unknown in ("4321", "0", "2"):
        with pytest.raises(UsageError, match=f"no entry for '{unknown}'"):
            explain(unknown)


def test_a_long_line_is_quoted_shortly() -> None:
    with pytest.raises(UsageError) as caught:
        explain("lorem\nipsum " * 5000)
    assert len(caught.value.what) < 120


@pytest.mark.parametrize("text", ["", "  \n", "x" * (LENGTH_MAX + 1)])
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no line to explain"):
        explain(text)
