"""Chains in numba's simulator: what the predecessor got wrong, and what else has to hold of each."""

from __future__ import annotations

import importlib
import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuwork.anneal import backend
from gpuwork.anneal import chains as chains_module
from gpuwork.anneal.status import BAD_ENERGY, BAD_TEMPERATURE, COLD, MAX_STEPS, RAISED, STOPPED, TARGET
from gpuwork.anneal.streams import make_streams, next_state
from gpuwork.anneal.troubles import find_troubles
from gpuwork.errors import Refused
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed, prepare_run

pytestmark = pytest.mark.slow

ACKLEY = (Path(__file__).parents[4] / "examples/anneal/ackley.py").read_text()


def energies(model: str, states: Any, real: Any) -> list[Any]:
    space: dict[str, Any] = {}
    exec(model, space)
    return [real(space["evaluate"](state)) for state in states]


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_value_of_every_chain_is_the_energy_of_its_state_bit_for_bit(precision: str, distribution: str) -> None:
    found = anneal(ACKLEY, precision=precision, distribution=distribution, thread_count=16, max_steps=150).chains
    real = np.dtype(precision).type
    assert {found.values.dtype, found.states.dtype} == {np.dtype(real)}, "the predecessor's states were always float64"
    assert found.values.tolist() == energies(ACKLEY, found.states, real)
    assert found.wrong == ()
    assert len(np.unique(found.values)) == 16, "each chain is one of its own"


def test_a_rejected_move_leaves_the_state_as_it_was() -> None:
    # The first move is accepted, the second rejected, and the others go on from the first. Who binds a name in place of
    # copying elements goes on from the rejected one.
    model = changed("return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)", "return e_new < e_old")
    move = "new_state[0] = 0.5 if step == 1 else 9.0 if step == 2 else state[0] - 0.125"
    model = changed("new_state[0] = state[0] + randoms[0] - 0.5", move, model)
    model = changed("state[0] = WIDTH * randoms[0]", "state[0] = WIDTH", model)
    found = anneal(model, thread_count=16, max_steps=900).chains
    assert found.states[:, 0].tolist() == [0.0] * 16


def test_the_best_state_is_kept_not_the_last() -> None:
    model = changed("return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)", "return True")
    model = changed("new_state[0] = state[0] + randoms[0] - 0.5", "new_state[0] = abs(step - 7.0)", model)
    found = anneal(model).chains
    assert found.values.tolist() == [1.0] * 4
    assert found.states.tolist() == [[0.0, 1.0]] * 4
    assert found.trace[-1].tolist() == [1.0] * 4


def test_a_move_begins_from_the_state_whatever_was_rejected_before() -> None:
    # Each move adds to what it finds in new_state, and the ninth is the only one that is accepted, if any
    model = changed("new_state[0] = state[0] + randoms[0] - 0.5", "new_state[0] += 1.0")
    model = changed("return old_temp * 0.99", "return float(step)", model)
    model = changed("return state[0] * state[0] + state[1]", "return -state[0]", model)
    accept = "return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)"
    before = anneal(changed(accept, "return False", model), max_steps=900).chains.states
    after = anneal(changed(accept, "return temp == 8.0", model), max_steps=900).chains.states
    assert (after - before)[:, 0].tolist() == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("count", [1, 3, 16, 17, 20, 33])
def test_any_number_of_chains_stays_within_its_arrays(count: int) -> None:
    # The predecessor compared with threads times the length of a state: 20 chains in 2 blocks of 16 went beyond them,
    # which the simulator refuses.
    settings = {"thread_count": count, "threads_per_block": 16, "max_steps": 5}
    found = anneal(**settings).chains  # type: ignore[arg-type]
    assert found.values.shape == (count,)
    assert found.states.shape == (count, 2)
    assert np.isfinite(found.values).all()


def test_the_result_depends_on_neither_launches_nor_blocks_nor_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = anneal(thread_count=12, max_steps=90).chains
    again = anneal(thread_count=12, max_steps=90).chains
    assert whole.states.tobytes() == again.states.tobytes()
    narrow = anneal(thread_count=12, max_steps=90, threads_per_block=5).chains
    assert whole.states.tobytes() == narrow.states.tobytes()
    monkeypatch.setattr(chains_module, "_FIRST_LAUNCH", 1)
    monkeypatch.setattr(chains_module, "_LAUNCH_S", 0)
    short = anneal(thread_count=12, max_steps=90).chains
    assert whole.states.tobytes() == short.states.tobytes()
    parts = [anneal(thread_count=12, max_steps=90, first=first, count=4).chains for first in (0, 4, 8)]
    assert np.concatenate([part.states for part in parts]).tobytes() == whole.states.tobytes()
    other = anneal(thread_count=12, max_steps=90, random_seed=43).chains
    assert whole.states.tobytes() != other.states.tobytes()


def test_no_two_chains_share_a_random_stream() -> None:
    streams = make_streams(-919, first=0, count=300)
    assert len({(int(one["s0"]), int(one["s1"])) for one in streams}) == 300
    part = make_streams(-919, first=123, count=50)
    assert part.tobytes() == streams[123:173].tobytes()
    far = make_streams(-919, first=10**12, count=1)
    assert far.tobytes() not in {one.tobytes() for one in streams}


def test_random_numbers_are_those_of_numba() -> None:
    # Its functions are compiled for the CPU here; with the simulator it has to be told not to.
    random = pytest.importorskip("numba.cuda.random")
    states = np.zeros(5, make_streams(1, first=0, count=1).dtype)
    with np.errstate(over="ignore"):
        random.init_xoroshiro128p_state.py_func(states, 0, np.uint64(-919 & (2**64 - 1)))
        for chain in range(1, 3):
            states[chain] = states[chain - 1]
            jump(states, chain)
        ours = make_streams(-919, first=0, count=3)
        assert states[:3].tobytes() == ours.tobytes()
        numba_word = int(random.xoroshiro128p_next.py_func(ours, 1))
    state = int(states[1]["s0"]), int(states[1]["s1"])
    assert numba_word == (state[0] + state[1]) & (2**64 - 1)
    assert (int(ours[1]["s0"]), int(ours[1]["s1"])) == next_state(state)


def jump(states: Any, index: int) -> None:
    """numba's xoroshiro128p_jump, by its own next number."""
    next_number: Any = importlib.import_module("numba.cuda.random").xoroshiro128p_next
    s0 = s1 = 0
    for word, bit in itertools.product((0xBEAC0467EBA5FACB, 0xD86B048B86AA9922), range(64)):
        if word >> bit & 1:
            s0 ^= int(states[index]["s0"])
            s1 ^= int(states[index]["s1"])
        next_number.py_func(states, index)
    states[index]["s0"], states[index]["s1"] = np.uint64(s0), np.uint64(s1)


def test_uniform_numbers_are_below_one_in_float32_too(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = pytest.importorskip("gpuwork.anneal.backend")
    monkeypatch.setattr(backend.SimulatedStreams, "next_word", lambda _self, _chain: 2**64 - 1)
    for real in (np.float32, np.float64):
        uniform, gauss = backend.make_draws(real)
        streams = backend.SimulatedStreams(make_streams(1, first=0, count=1))
        assert 0.99 < uniform(streams, 0) < 1
        monkeypatch.setattr(backend.SimulatedStreams, "next_word", lambda _self, _chain: 0)
        assert math.isfinite(gauss(streams, 0))
        monkeypatch.setattr(backend.SimulatedStreams, "next_word", lambda _self, _chain: 2**64 - 1)


def test_normal_numbers_are_normal() -> None:
    model = changed("state[0] = WIDTH * randoms[0]", "state[0] = randoms[0]")
    model = changed("return state[0] * state[0] + state[1]", "return state[0]", model)
    model = changed("return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)", "return False", model)
    values = anneal(model, distribution="normal", thread_count=400, max_steps=1).chains.states[:, 0]
    assert abs(values.mean()) < 0.2
    assert 0.85 < values.std() < 1.15


def test_a_chain_stops_at_max_steps_or_when_it_is_cold() -> None:
    found = anneal(max_steps=30).chains
    assert (found.status.tolist(), found.steps.tolist()) == ([MAX_STEPS] * 4, [30] * 4)
    assert found.temperatures[0] == pytest.approx(0.99**30)
    found = anneal(max_steps=3000, min_temp=0.9).chains
    assert found.status.tolist() == [COLD] * 4
    assert set(found.steps.tolist()) == {11}, "0.99 ** 11 is the first power below 0.9"
    assert found.temperatures[0] <= 0.9


def test_a_chain_at_the_target_stops_the_others_of_its_part_at_the_same_steps_each_time() -> None:
    found = anneal(max_steps=100_000, target=1.0001, thread_count=8)
    status = set(found.chains.status.tolist())
    assert TARGET in status
    assert status <= {TARGET, STOPPED}
    reached = found.chains.status == TARGET
    assert (found.chains.values[reached] <= 1.0001).all()
    assert (found.chains.steps % 256 == 0)[~reached].all()
    again = anneal(max_steps=100_000, target=1.0001, thread_count=8).chains
    assert again.states.tobytes() == found.chains.states.tobytes()


def test_a_chain_whose_model_breaks_is_told_and_the_others_stay() -> None:
    good = anneal(thread_count=6).chains
    broken = changed(
        "return state[0] * state[0] + state[1]",
        "return state[0] * state[0] + 1.0 / float(state[1])",
    )
    broken = changed("    state[1] = 1.0", "    state[1] = 0.0 if 1.2 < state[0] < 2.4 else 1.0", broken)
    found = anneal(broken, thread_count=6)
    bad = [place for place in range(6) if found.chains.status[place] == RAISED]
    assert 0 < len(bad) < 6
    kept = [place for place in range(6) if place not in bad]
    assert found.chains.states[kept].tobytes() == good.states[kept].tobytes()
    troubles = find_troubles(found.chains, found.settings)
    assert [trouble.chain for trouble in troubles] == bad
    assert "ZeroDivisionError: float division by zero" in troubles[0].message
    assert "it has no value" in troubles[0].message
    assert np.isnan(found.chains.values[bad]).all()


def test_nan_and_minus_infinity_are_no_energies() -> None:
    for bad in ("math.nan", "-math.inf"):
        model = changed(
            "    return state[0] * state[0] + state[1]",
            f"""\
    if state[0] < -1.0:
        return {bad}
    return state[0] * state[0] + state[1]""",
        )
        found = anneal(model, thread_count=8, max_steps=400, initial_temp=1e6)
        bad_places = [place for place in range(8) if found.chains.status[place] == BAD_ENERGY]
        assert bad_places
        assert np.isfinite(found.chains.values).all(), "the best value before that is kept"
        troubles = [one for one in find_troubles(found.chains, found.settings) if one.kind == "error"]
        assert [one.chain for one in troubles] == bad_places
        assert "its best value before that is kept" in troubles[0].message
        assert [one.step for one in troubles] == found.chains.steps[bad_places].tolist()


def test_a_temperature_that_is_nan_is_told() -> None:
    model = changed("return old_temp * 0.99", "return old_temp * 0.99 if step < 5 else math.nan")
    found = anneal(model)
    assert found.chains.status.tolist() == [BAD_TEMPERATURE] * 4
    assert found.chains.steps.tolist() == [5] * 4
    assert "cool returned NaN" in find_troubles(found.chains, found.settings)[0].message


def test_a_model_that_never_cools_is_warned_about_and_has_its_values() -> None:
    found = anneal(changed("return old_temp * 0.99", "return old_temp"), thread_count=3)
    troubles = find_troubles(found.chains, found.settings)
    assert [(one.chain, one.kind) for one in troubles] == [(0, "warning"), (1, "warning"), (2, "warning")]
    assert "it never cooled: its temperature is 1 and was 1" in troubles[0].message
    assert np.isfinite(found.chains.values).all()
    assert find_troubles(anneal().chains, anneal().settings) == []


def test_a_value_that_is_never_finite_is_told() -> None:
    found = anneal(changed("return state[0] * state[0] + state[1]", "return math.inf"))
    messages = [one.message for one in find_troubles(found.chains, found.settings)]
    assert messages[0].startswith("its best value is inf: evaluate never returned a finite number")


def test_an_evaluate_that_depends_on_more_than_the_state_is_told() -> None:
    model = changed("return state[0] * state[0] + state[1]", "COUNTS[0] += 1\n    return state[0] + COUNTS[0]")
    model = changed("WIDTH = 4.0", "WIDTH = 4.0\nCOUNTS = [0]", model)
    found = anneal(model, thread_count=2)
    messages = [one.message for one in find_troubles(found.chains, found.settings)]
    assert "must depend only on the state" in messages[0]


@pytest.mark.parametrize(
    ("returned", "evidence"),
    [
        *(("[]", "shape (0,)"), ("[[1.0, 2.0]]", "shape (1, 2)"), ("3.0", "shape ()"), ('["a"]', "list")),
        *(("None", "shape ()"), ("[0.0] * 70000", "shape (70000,)")),
    ],
)
def test_an_empty_state_that_is_none_is_refused(returned: str, evidence: str) -> None:
    with pytest.raises(Refused) as caught:
        anneal(changed("return [0.0, 0.0]", f"return {returned}"))
    assert evidence in caught.value.evidence


def test_a_state_too_large_for_a_thread_is_refused() -> None:
    model = changed("return [0.0, 0.0]", "return [0.0] * 40000")
    assert len(anneal(model, max_steps=1, thread_count=1).chains.states[0]) == 40000
    with pytest.raises(Refused) as caught:
        anneal(model, precision="float64")
    assert "a state is too large for a thread" in str(caught.value)
    assert "640,008 bytes, and a thread has 507,904" in caught.value.evidence


def test_globals_are_there_and_nothing_else_of_the_file_is_executed(tmp_path: Path) -> None:
    model = f"open({str(tmp_path / 'executed')!r}, 'w')\nOTHER = 1\n{LINE}"
    model = changed(
        "WIDTH = 4.0",
        "import math as m\nWIDTH = m.pi\n@cuda.jit(device=True)\ndef half(x):\n    return x / 2",
        model,
    )
    model = changed("WIDTH * randoms[0]", "clamp(1.0, half(WIDTH) * randoms[0], 1.5)", model)
    model = changed("new_state[0] = ", "copy_state(state, new_state)\n    new_state[0] = ", model)
    found = anneal(model, thread_count=16).chains
    assert np.isfinite(found.values).all()
    assert not (tmp_path / "executed").exists()


def test_a_block_is_chosen_of_which_the_device_holds_the_most_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks_at_once(block: int) -> int:
        return 132 * min(32, 65_536 // (72 * block), 2048 // block)  # an H100, and 72 registers of a thread

    compiled = SimpleNamespace(max_threads_per_block=896, max_cooperative_grid_blocks=blocks_at_once)
    monkeypatch.setattr(backend, "SIMULATED", False)
    block = backend.best_block(SimpleNamespace(overloads={"signature": compiled}))
    held = {one: blocks_at_once(one) * one for one in range(32, 897, 32)}
    assert held[block] == max(held.values())
    assert block == min(one for one in held if held[one] == held[block]), "of equal ones the smallest"


def test_the_rate_is_that_of_steps_that_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = changed("return old_temp * 0.99", "return 0.0 if step == 3 else old_temp")
    run, _ = prepare_run(model, max_steps=10**9)
    monkeypatch.setattr(chains_module, "time", SimpleNamespace(monotonic=lambda: 0.0))  # a moment counts as 1 ns
    assert run.measure(chains=4, limit_s=1.0) * 1e-9 == pytest.approx(4 * 3)


def test_chains_that_end_early_keep_none_waiting() -> None:
    # The predecessor had a barrier behind a divergent return: where only some threads get there, the others hang
    model = changed("return old_temp * 0.99", "return old_temp * (0.5 if old_temp < 0.9 else 0.99)")
    model = changed("def initialize(state, randoms):", "def initialize(state, randoms):\n    randoms[0] += 0.0", model)
    found = anneal(model, thread_count=17, threads_per_block=16, min_temp=0.5, max_steps=100_000, target=1.00001).chains
    assert set(found.status.tolist()) <= {COLD, TARGET, STOPPED}
    assert "syncthreads" not in Path(chains_module.__file__).with_name("kernel.py").read_text()


def test_the_trace_has_the_best_values_at_the_same_steps_for_all_chains() -> None:
    found = anneal(max_steps=1000, thread_count=70).chains
    assert found.sampled_steps.tolist() == list(range(0, 1001, 10))
    assert found.trace.shape == (101, 64)
    assert np.isnan(found.trace[0]).all()
    assert (np.diff(found.trace[1:], axis=0) <= 0).all()
    assert found.trace[-1].tolist() == found.values[:64].tolist()


def test_the_known_answer() -> None:
    settings = {"thread_count": 16, "max_steps": 10_000, "initial_temp": 10, "random_seed": -919}
    found = anneal(ACKLEY, **settings).chains
    assert 0 <= np.nanmin(found.values) < 0.1
    assert found.values.tolist() == energies(ACKLEY, found.states, np.float32)


def test_the_known_answer_of_rastrigin() -> None:
    model = (Path(__file__).parents[4] / "examples/anneal/rastrigin.py").read_text()
    found = anneal(model, thread_count=16, max_steps=5000, initial_temp=10, random_seed=-919).chains
    assert 0 <= np.nanmin(found.values) < 0.1
