"""pip's words, as pip 26.3 says them, and what they lead to."""

from __future__ import annotations

import pytest

from gpuprov.provision.pip_answers import ConflictReasons, decide_fix

CONFLICT = """\
ERROR: Cannot install numpy<2 and numpy>=2.1 because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/"""
ABSENT = """\
ERROR: Could not find a version that satisfies the requirement antlr4-python3-runtime==4.9.* (from versions: 4.13.2)
ERROR: No matching distribution found for antlr4-python3-runtime==4.9.*"""
RETRIED = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/foo/
ERROR: Could not find a version that satisfies the requirement foo (from versions: none)
ERROR: No matching distribution found for foo"""


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (CONFLICT, ["change versions in image.python"]),
        (ABSENT, ["has a wheel for Python 3.11", "wheel --no-deps --wheel-dir wheels 'antlr4-python3-runtime==4.9.*'"]),
        (ABSENT, ["PIP_FIND_LINKS=$PWD/wheels"]),
        (RETRIED, ["can reach its package index"]),
        ("ERROR: No matching distribution found for pip", ["can reach its package index"]),
        ("ERROR: anything else", ["can reach its package index"]),
    ],
)
def test_what_pip_says_leads_to_a_fix(said: str, parts: list[str]) -> None:
    for part in parts:
        assert part in decide_fix(said, "3.11")


def test_the_reasons_of_a_conflict_are_kept_however_they_come() -> None:
    lines = [
        "Collecting hydra-core==1.3.*",
        "The conflict is caused by:",
        "    hydra-core 1.3.8 depends on antlr4-python3-runtime==4.9.*",
        "",
        "To fix this you could try to:",
        "1. loosen the range of package versions you've specified",
    ]
    at_once, one_by_one = ConflictReasons(), ConflictReasons()
    at_once.hear(lines)
    for line in lines:
        one_by_one.hear([line])
    assert at_once.lines == one_by_one.lines == lines[1:3]
    at_once.hear([lines[1], *lines[2:3] * 100])
    assert len(at_once.lines) == 12
