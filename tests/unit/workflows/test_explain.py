from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.workflows.explain import LENGTH_MAX, explain


def test_a_line_is_explained() -> None:
    (entry,) = explain("slurmctld: error: gres/gpu count reported lower than configured (0 < 1)")
    assert entry.id == "slurm-gres-count"


def test_what_nobody_knows_is_said_with_what_lies_near() -> None:
    with pytest.raises(UsageError, match="there is no entry for 'slurm-gress'") as caught:
        explain("slurm-gress")
    assert caught.value.exit_code == 2
    assert "slurm-gres," in caught.value.evidence
    assert caught.value.fix.startswith("gpuprov explain slurm-gres ")


def test_a_long_line_is_quoted_shortly() -> None:
    with pytest.raises(UsageError) as caught:
        explain("lorem\nipsum " * 500)
    assert len(caught.value.what) < 120


@pytest.mark.parametrize("text", ["", "  \n", "x" * (LENGTH_MAX + 1)])
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no line to explain"):
        explain(text)
