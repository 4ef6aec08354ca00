from __future__ import annotations

import numpy as np
import pytest

from smoke_kernels import multiprocessors
from smoke_kernels.multiprocessors import Census, judge_multiprocessors


@pytest.mark.parametrize(
    ("present", "took_part", "blocks", "wrong", "passed", "evidence"),
    [
        (None, 1, 4, {}, True, "not asked: the simulator has none"),
        (132, 132, 1024, {}, True, "132 of 132 took part"),
        (132, 131, 1024, {}, False, "131 of 132 took part"),
        (132, 121, 121, {}, True, "121 of 132 took part, a problem of this size has 121 blocks for them"),
        (132, 120, 121, {}, False, "120 of 132 took part, a problem of this size has 121 blocks for them"),
        (132, 1, 1, {}, True, "1 of 132 took part, a problem of this size has 1 block for them"),
        (132, 132, 264, {17: 3}, False, "132 of 132 took part; wrong results came from multiprocessor 17 (3)"),
        (4, 4, 8, {3: 1, 0: 2}, False, "4 of 4 took part; wrong results came from multiprocessor 0 (2), 3 (1)"),
        (
            16, 16, 16, dict.fromkeys(range(11), 1), False,
            ("16 of 16 took part; wrong results came from multiprocessor 0 (1), 1 (1), 2 (1), 3 (1), 4 (1), 5 (1), "
            "6 (1), 7 (1) and 3 more"),
        ),
    ],
)  # fmt: skip
def test_all_must_take_part_and_none_be_wrong(
    present: int | None,
    took_part: int,
    blocks: int,
    wrong: dict[int, int],
    passed: bool,
    evidence: str,
) -> None:
    check = judge_multiprocessors(present=present, took_part=took_part, blocks=blocks, wrong=wrong)
    assert (check.name, check.passed, check.evidence) == ("multiprocessors", passed, evidence)


def test_blocks_that_never_ran_are_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessors, "count_multiprocessors", lambda: 4)
    census = Census()
    census.add(np.array([0, 2, 0xFFFFFFFF, 3, 0], np.uint32))
    assert census.details() == {"multiprocessors": {"present": 4, "took_part": 3, "wrong": {}}}
    assert not census.check().passed
    census.add(np.array([1], np.uint32))
    assert census.check().passed
    census.blame(np.array([1, 3], np.uint32), [1, 1])
    assert census.details()["multiprocessors"]["wrong"] == {3: 1}
    assert not census.check().passed
