"""Every fault of a model is told at once, with its line, and nothing of it is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwork.anneal.contract import FUNCTIONS
from gpuwork.anneal.model_file import MOST_BYTES, parse_model, read_model
from gpuwork.anneal.validator import find_model_faults
from tests.unit.gpuwork.anneal.conftest import LINE, changed

DEFINE = "(allowed: define it between two lines `# -- Globals`)"
EXAMPLES = sorted((Path(__file__).parents[4] / "examples/anneal").glob("*.py"))
BAD = """\
import math
SCALE = 2.0
# -- Globals
LIMIT = 3.0
# -- Globals

def initialize(state):
    state[0] = 1

def generate_next(state, new_state, randoms, step):
    pass

def cool(initial_temp, old_temp, step):
    import math
    return old_temp * SCALE

def evaluate(state):
    try:
        energy = state[0] / LIMIT
    except ZeroDivisionError:
        energy = 0
    finally:
        energy = 1

def acceptance_func(e_old, e_new, temp, rnd):
    yield e_new < missing(e_old)
"""


def faults_of(text: str) -> list[str]:
    model, faults = parse_model(text, file="model.py")
    return [str(fault) for fault in [*faults, *(find_model_faults(model) if model else [])]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_have_no_faults(path: Path) -> None:
    model, faults = read_model(path)
    assert model is not None
    assert [*faults, *find_model_faults(model)] == []


def test_every_fault_is_told_at_once_with_its_line() -> None:
    assert faults_of(BAD) == [
        "model.py: empty_state: is missing (allowed: def empty_state())",
        "model.py:7: initialize: takes (state) (allowed: initialize(state, randoms))",
        "model.py:10: generate_next: is empty",
        "model.py:14: cool: uses import",
        f"model.py:15: cool: uses SCALE, which is outside the two lines `# -- Globals` {DEFINE}",
        "model.py:17: evaluate: has no return (allowed: return VALUE)",
        "model.py:20: evaluate: uses except",
        "model.py:23: evaluate: uses finally",
        "model.py:25: acceptance_func: has no return (allowed: return VALUE)",
        "model.py:26: acceptance_func: uses yield",
        f"model.py:26: acceptance_func: uses missing, which is defined nowhere {DEFINE}",
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_needed(name: str) -> None:
    found = faults_of(LINE.replace(f"def {name}(", "def other("))
    assert found == [f"model.py: {name}: is missing (allowed: def {name}({', '.join(FUNCTIONS[name])}))"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def evaluate(state)", "def evaluate(state, more)", "evaluate: takes (state, more)"),
        ("def evaluate(state)", "def evaluate(*state)", "evaluate: takes (*state)"),
        ("def evaluate(state)", "def evaluate(state=1)", "evaluate: takes (state=1)"),
        ("def evaluate(state)", "async def evaluate(state)", "evaluate: is not a plain function"),
        ("def evaluate(state)", "@print\ndef evaluate(state)", "evaluate: has a decorator"),
        ("    return old_temp * 0.99", "    '''Nothing.'''", "cool: is empty"),
        ("    return old_temp * 0.99", "    ...", "cool: is empty"),
        ("    return old_temp * 0.99", "    old_temp *= 0.99", "cool: has no return"),
        ("    return old_temp * 0.99", "    return", "cool: has no return"),
        ("    return old_temp * 0.99", "    def inner():\n        return 1\n    inner()", "cool: has no return"),
        ("    return old_temp * 0.99", "    from math import pi\n    return pi", "cool: uses import"),
        ("    return old_temp * 0.99", "    return (yield)", "cool: uses yield"),
        ("    return old_temp * 0.99", "    return old", "cool: uses old, which is defined nowhere"),
        ("    return old_temp * 0.99", "    return sum(rate for rate in [state])", "cool: uses state"),
        ("WIDTH = 4.0\n# -- Globals", "WIDTH = 4.0", "has 1 lines `# -- Globals` (allowed: two, or none)"),
        ("WIDTH = 4.0", "WIDTH = 4.0\ndef wide():\n    return OTHER", "wide: uses OTHER, which is defined nowhere"),
        ("WIDTH = 4.0", "# -- Globals\nWIDTH = 4.0", "has 3 lines `# -- Globals`"),
        ("def cool(", "def evaluate(state):\n    return 1\n\ndef cool(", "evaluate: is defined twice, first on line"),
        ("def evaluate(state)", "def evaluate(state", "is not Python: "),
        ("WIDTH = 4.0", "return 4.0", "is not Python: 'return' outside function"),
        ("WIDTH = 4.0", "WIDTH = '\0'", "is not Python: "),
    ],
)
def test_each_kind_of_fault(old: str, new: str, said: str) -> None:
    found = faults_of(changed(old, new))
    assert any(said in fault for fault in found), found
    assert all(fault.startswith("model.py") for fault in found)


@pytest.mark.parametrize(
    "line",
    [
        "    total = 0\n    for place in range(3):\n        total += place\n    return total + old_temp",
        "    return clamp(0.0, math.exp(-step) + np.float32(1) * numba.float32(2), max(1, WIDTH))",
        "    rates = [rate * WIDTH for rate in (1, 2)]\n    return rates[0] * evaluate(rates)",
        "    rate: float = 0.5\n    return old_temp * rate",
    ],
)
def test_what_is_right_is_not_a_fault(line: str) -> None:
    assert faults_of(changed("    return old_temp * 0.99", line)) == []


def test_types_are_no_fault_and_a_jit_of_the_function_itself_is_none() -> None:
    typed = changed("def evaluate(state):", "@cuda.jit(device=True)\ndef evaluate(state: State) -> Energy:")
    assert faults_of(typed) == []


def test_nothing_is_executed(tmp_path: Path) -> None:
    there = tmp_path / "executed"
    trap = f"open({str(there)!r}, 'w')\n"
    faults_of(
        trap + LINE.replace("WIDTH = 4.0", trap).replace("def empty_state():", f"def empty_state(x={trap.strip()}):")
    )
    assert not there.exists()


@pytest.mark.parametrize("deep", ["+".join(["1"] * 700), "-" * 700 + "1", "step" + ".real" * 700])
def test_what_is_nested_too_deep_is_told(deep: str) -> None:
    (found,) = faults_of(changed("return old_temp * 0.99", f"return {deep}"))
    assert found == "model.py: is nested too deeply to be checked (allowed: shorter expressions)"


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    assert "does not exist" in str(read_model(path)[1][0])
    path.write_bytes(b"\xff")
    assert "is not UTF-8 text" in str(read_model(path)[1][0])
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    assert "is not a file of at most 1,048,576 bytes" in str(read_model(path)[1][0])
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert "is not a file" in str(read_model(path)[1][0])
