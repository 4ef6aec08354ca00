from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from smoke_kernels.anneal import launch
from smoke_kernels.anneal.kernel import anneal_kernel
from smoke_kernels.anneal.lattice import black_sites, energies, initial_spins, planted_lattice
from smoke_kernels.anneal.launch import run_problem
from smoke_kernels.anneal.packing import join_colours, split_colours
from smoke_kernels.anneal.problem import ProblemKey, build_problem
from smoke_kernels.anneal.proof import check_energy, check_traces
from smoke_kernels.anneal.reference import anneal_reference
from smoke_kernels.anneal.run import run_anneal
from smoke_kernels.anneal.schedule import sweep_parameters
from smoke_kernels.anneal.single import pack_sites, single_kernel, unpack_sites
from smoke_kernels.anneal.trace import traced_reference
from smoke_kernels.errors import UsageError
from smoke_kernels.golden import find_golden
from smoke_kernels.hashing import digest
from smoke_kernels.multiprocessors import Census
from smoke_kernels.options import Options
from smoke_kernels.regenerate import ANNEAL_PROBLEMS, anneal_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke_kernels.anneal.launch import Runs
    from smoke_kernels.anneal.problem import AnnealProblem


class _Counted:
    """A kernel, or one that does nothing, with the half-sweeps of its launches."""

    def __init__(self, kernel: Any, *, after: Callable[..., None] = lambda *_: None) -> None:
        self.kernel = kernel
        self.launches: list[tuple[int, int]] = []
        self.after = after

    def __getitem__(self, configuration: object) -> _Counted:
        if self.kernel is not None:
            self.kernel = self.kernel[configuration]
        return self

    def __call__(self, *arguments: Any) -> None:
        self.launches.append((arguments[-2], arguments[-1]))
        if self.kernel is not None:
            self.kernel(*arguments)
        self.after(*arguments)


def run_once(problem: AnnealProblem) -> Runs:
    return run_problem(problem, repeats=1, seconds=0, census=Census())


@pytest.fixture(scope="module")
def problem() -> AnnealProblem:
    return build_problem(ProblemKey(size=16, sweeps=16, seed=2))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_the_planted_energy_is_the_ground_state_of_all_states(seed: int) -> None:
    lattice = planted_lattice(4, seed)
    states = np.arange(1 << 15, dtype=np.uint32).reshape(-1, 32)  # the other half are these turned over: same energies
    lowest = 0
    for group in states:
        bits = (group[:, None] >> np.arange(16, dtype=np.uint32)) & np.uint32(1)
        spins = np.bitwise_or.reduce(bits << np.arange(32, dtype=np.uint32)[:, None], axis=0)
        lowest = min(lowest, int(energies(lattice, spins.reshape(4, 4)).min()))
    assert lowest == lattice.ground_energy


def test_every_bond_lies_in_one_black_plaquette_and_the_energy_counts_them() -> None:
    lattice = planted_lattice(8, seed=1)
    frustrated = lattice.right ^ np.roll(lattice.right, -1, axis=0) ^ lattice.down ^ np.roll(lattice.down, -1, axis=1)
    black = black_sites(8)
    count = int(np.count_nonzero(frustrated & black))
    assert 0 < count < np.count_nonzero(black)
    assert lattice.ground_energy == -2 * count - 4 * (int(np.count_nonzero(black)) - count)


def test_energies_are_those_of_a_plain_loop() -> None:
    lattice, spins = planted_lattice(8, seed=3), initial_spins(8, seed=3)
    for replica in (0, 17, 31):
        signs = 1 - 2 * ((spins >> np.uint32(replica)) & np.uint32(1)).astype(int)
        energy = 0
        for y, x in itertools.product(range(8), range(8)):
            energy += (1 if lattice.right[y, x] else -1) * signs[y, x] * signs[y, (x + 1) % 8]
            energy += (1 if lattice.down[y, x] else -1) * signs[y, x] * signs[(y + 1) % 8, x]
        assert energies(lattice, spins)[replica] == energy


def test_packing_is_undone_by_joining() -> None:
    spins = initial_spins(16, seed=1)
    split = split_colours(spins)
    assert np.array_equal(join_colours(split), spins)
    assert np.array_equal(np.sort(split[0].ravel()), np.sort(spins[black_sites(16)]))


def test_the_thresholds_are_the_exponentials_rounded_down() -> None:
    text = (resources.files("smoke_kernels") / "data" / "thresholds.json").read_text(encoding="utf-8")
    table = json.loads(text)["thresholds"]
    for step, (one_broken, none_broken) in enumerate(table):
        inverse_temperature = 0.5 + 2.5 * step / (len(table) - 1)
        assert abs(one_broken - 2**32 * math.exp(-4 * inverse_temperature)) < 1.001
        assert abs(none_broken - 2**32 * math.exp(-8 * inverse_temperature)) < 1.001


@pytest.mark.parametrize(("size", "sweeps", "seed"), [(8, 5, 1), (8, 12, 9), (16, 4, 2), (32, 2, 3)])
@pytest.mark.parametrize("independent", [False, True])
def test_the_kernel_gives_the_bits_of_numpy(size: int, sweeps: int, seed: int, *, independent: bool) -> None:
    if independent and size > 8:
        sweeps = 1
    problem = build_problem(ProblemKey(size=size, sweeps=sweeps, seed=seed, independent=independent))
    runs = run_once(problem)
    expected = anneal_reference(problem.lattice, problem.spins, problem.parameters, independent=independent)
    assert np.array_equal(runs.spins, expected)
    assert runs.digests == [problem.golden] == [digest(split_colours(expected))]
    assert runs.traces == [problem.golden_trace]


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_lattice_beyond_one_block_takes_one_launch_where_blocks_can_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    monkeypatch.setattr(ProblemKey, "in_one_block", False)
    monkeypatch.setattr(launch, "can_sync_grids", lambda: together)
    problem = build_problem(ProblemKey(size=8, sweeps=3, seed=1))
    kernel = _Counted(anneal_kernel(independent=False, grid_wide=together))
    monkeypatch.setattr(launch, "anneal_kernel", lambda **_: kernel)
    assert run_once(problem).digests == [problem.golden]
    assert kernel.launches == ([(0, 0), (0, 6)] if together else [(half, half + 1) for half in range(6)])


def test_the_shipped_golden_values_are_those_of_numpy() -> None:
    for size, sweeps, randoms in ANNEAL_PROBLEMS:
        names = {"independent": randoms == "independent", "one_replica": randoms == "one replica"}
        shipped = find_golden("anneal", seed=1, size=size, sweeps=sweeps, **names)
        assert shipped is not None
        if size**2 * sweeps <= 32**2 * 200:
            assert shipped == anneal_entry(size, sweeps, seed=1, randoms=randoms)


@pytest.mark.parametrize(("size", "sweeps"), [(8, 32), (16, 64), (64, 1000)])
@pytest.mark.parametrize("independent", [False, True])
def test_the_default_problems_reach_their_ground_state(size: int, sweeps: int, *, independent: bool) -> None:
    entry = find_golden("anneal", seed=1, size=size, sweeps=sweeps, independent=independent)
    assert entry is not None
    assert entry["best_energy"] == entry["ground_energy"]


@pytest.mark.parametrize(("size", "sweeps", "seed"), [(64, 2, 1), (64, 3, 9), (128, 1, 2)])
def test_one_replica_walks_as_replica_0_of_the_32_does(size: int, sweeps: int, seed: int) -> None:
    problem = build_problem(ProblemKey(size=size, sweeps=sweeps, seed=seed, one_replica=True))
    runs = run_once(problem)
    expected = anneal_reference(problem.lattice, problem.spins, problem.parameters) & np.uint32(1)
    assert np.array_equal(runs.spins, expected)
    assert runs.digests == [problem.golden] == [digest(pack_sites(expected))]
    assert runs.traces == ([problem.golden_trace] if size == 64 else [])
    assert not np.array_equal(expected, problem.spins & np.uint32(1))


def test_one_replica_is_proven_by_digest_and_energy() -> None:
    result = run_anneal(Options(quick=True, one_replica=True))
    assert result.passed
    assert result.proof is not None
    assert (result.parameters["size"], result.parameters["replicas"], result.parameters["randoms"]) == (
        64, 1, "independent",
    )  # fmt: skip
    assert result.proof.golden_source == "shipped"
    assert "of 1 replicas" in next(check.evidence for check in result.proof.checks if check.name == "energy")
    entry = find_golden("anneal", seed=1, size=64, sweeps=1000, independent=False, one_replica=True)
    assert entry is not None
    assert entry["best_energy"] == entry["ground_energy"]


def test_sites_are_packed_and_unpacked() -> None:
    spins = initial_spins(128, seed=4)
    words = pack_sites(spins)
    assert words.shape == (2, 128, 2)
    assert np.array_equal(join_colours(unpack_sites(words)), spins & np.uint32(1))
    assert words[1, 3, 1] >> np.uint32(5) & np.uint32(1) == split_colours(spins)[1, 3, 37] & np.uint32(1)


def test_faults_of_the_one_replica_are_caught() -> None:
    problem = build_problem(ProblemKey(size=64, sweeps=2, seed=1, one_replica=True))
    right = problem.lattice.right.copy()
    right[9, 63] ^= True
    wrong = run_once(replace(problem, lattice=replace(problem.lattice, right=right)))
    skipped = run_once(replace(problem, key=replace(problem.key, sweeps=1)))
    assert problem.golden not in (*wrong.digests, *skipped.digests)
    final = anneal_reference(problem.lattice, problem.spins, problem.parameters)
    final[17, 40] ^= np.uint32(1)
    assert digest(pack_sites(final)) != problem.golden


@pytest.mark.parametrize("size", [8, 32, 96, 16384])
def test_a_size_that_one_replica_cannot_take(size: int) -> None:
    with pytest.raises(UsageError, match=f"does not support size {size}"):
        run_anneal(Options(size=size, one_replica=True))


@pytest.mark.slow
def test_a_spin_that_heals_is_caught_by_the_trace() -> None:
    """What a kernel traces is what numpy traces (tests above), so numpy may show what the trace sees."""
    problem = build_problem(ProblemKey(size=16, sweeps=64, seed=1))
    lattice, parameters = problem.lattice, problem.parameters

    def run(place: tuple[int, int] | None, sweep: int = 0) -> tuple[int, int]:
        spins, before = traced_reference(
            lattice, problem.spins, parameters[:sweep], independent=False, pack=split_colours
        )
        if place is not None:
            spins[place] ^= np.uint32(1 << 7)
        spins, after = traced_reference(lattice, spins, parameters[sweep:], independent=False, pack=split_colours)
        return digest(split_colours(spins)), before + after & 0xFFFFFFFF

    assert run(None) == run(None, sweep=9) == (problem.golden, problem.golden_trace)
    # Black sites and white ones
    spoiled = [run((y, (3 * y + y % 3) % 16), sweep=4 * y) for y in range(16)]
    assert sum(found == problem.golden for found, _ in spoiled) >= 3, "none heals: this test shows nothing"
    assert all(trace != problem.golden_trace for _, trace in spoiled)


def test_an_anneal_of_several_launches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_MOST_HALVES", 4)
    problem = build_problem(ProblemKey(size=8, sweeps=5, seed=1))
    kernel = _Counted(anneal_kernel(independent=False, grid_wide=False))
    monkeypatch.setattr(launch, "anneal_kernel", lambda **_: kernel)
    runs = run_problem(problem, repeats=1, seconds=0, census=Census(), copies=2)
    assert kernel.launches == [(0, 4), (4, 8), (8, 10)]
    assert (runs.digests, runs.traces) == (2 * [problem.golden], 2 * [problem.golden_trace])


@pytest.mark.parametrize("one_replica", [False, True])
def test_the_multiprocessor_of_a_wrong_copy_is_named(monkeypatch: pytest.MonkeyPatch, *, one_replica: bool) -> None:
    key = ProblemKey(size=64 if one_replica else 8, sweeps=1, seed=1, one_replica=one_replica)
    problem = build_problem(key)

    def spoil(spins: Any, _bonds: Any, _parameters: Any, owners: Any, traces: Any, *words: int) -> None:
        for block in range(owners.size):
            owners[block] = 70 + block
        spins[words[1] + 5] ^= np.uint32(1)
        traces[traces.size - 1] ^= np.uint32(1)

    original = single_kernel(grid_wide=False) if one_replica else anneal_kernel(independent=False, grid_wide=False)
    kernel = _Counted(original, after=spoil)
    monkeypatch.setattr(launch, "single_kernel" if one_replica else "anneal_kernel", lambda **_: kernel)
    census = Census()
    runs = run_problem(problem, repeats=1, seconds=0, census=census, copies=4)
    assert kernel.launches == [(0, 2)]
    assert [found == problem.golden for found in runs.digests] == [True, False, True, True]
    assert [found == problem.golden_trace for found in runs.traces] == [True, True, True, False]
    assert (census.wrong, census.seen) == ({71: 1, 73: 1}, {70, 71, 72, 73})
    (check,) = check_traces(runs.traces, problem.golden_trace)
    assert (check.name, check.passed) == ("trace", False)
    assert check.evidence == f"3 of 4 traces are {problem.golden_trace:08x}"


def test_a_skipped_sweep_is_caught(problem: AnnealProblem) -> None:
    for skipped in (0, 7, 15):
        parameters = np.delete(problem.parameters, skipped, axis=0)
        final = anneal_reference(problem.lattice, problem.spins, parameters)
        assert digest(split_colours(final)) != problem.golden


def test_a_wrong_coupling_is_caught(problem: AnnealProblem) -> None:
    for y, x in ((0, 0), (5, 8), (15, 15)):
        right = problem.lattice.right.copy()
        right[y, x] ^= True
        final = anneal_reference(replace(problem.lattice, right=right), problem.spins, problem.parameters)
        assert digest(split_colours(final)) != problem.golden


def test_a_wrong_coupling_on_the_device_is_caught() -> None:
    problem = build_problem(ProblemKey(size=8, sweeps=4, seed=1))
    down = problem.lattice.down.copy()
    down[3, 3] ^= True
    runs = run_once(replace(problem, lattice=replace(problem.lattice, down=down)))
    assert runs.digests != [problem.golden]


@pytest.mark.parametrize("place", [(0, 0), (9, 4)])
def test_a_flipped_spin_is_caught(problem: AnnealProblem, place: tuple[int, int]) -> None:
    final = anneal_reference(problem.lattice, problem.spins, problem.parameters)
    final[place] ^= np.uint32(1 << 13)
    assert digest(split_colours(final)) != problem.golden


def test_a_state_above_the_ground_state_fails() -> None:
    lattice, start = planted_lattice(16, seed=1), initial_spins(16, seed=1)
    assert not check_energy(lattice, start)[0].passed
    final = anneal_reference(lattice, start, sweep_parameters(64, seed=1))
    assert check_energy(lattice, final)[0].passed
    # A single flipped spin of a ground state can cost nothing, so spoil a whole row, with every other spin flipped.
    final[3, ::2] ^= np.uint32(0xFFFFFFFF)
    assert not check_energy(lattice, final)[0].passed


def test_an_energy_below_the_ground_state_means_corrupted_couplings() -> None:
    lattice = planted_lattice(16, seed=1)
    corrupted = replace(lattice, right=np.zeros((16, 16), np.bool_), down=np.zeros((16, 16), np.bool_))
    check, _ = check_energy(corrupted, np.zeros((16, 16), np.uint32))
    assert not check.passed
    assert "couplings are corrupted" in check.evidence


def test_too_few_sweeps_are_held_to_the_reference() -> None:
    result = run_anneal(Options(size=16, sweeps=1))
    assert result.passed
    assert result.proof is not None
    energy = next(check for check in result.proof.checks if check.name == "energy")
    assert "the reference does not reach it" in energy.evidence


def test_a_device_that_keeps_its_input_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smoke_kernels.anneal.launch.anneal_kernel", lambda **_: _Counted(None))
    result = run_anneal(Options(quick=True))
    assert result.proof is not None
    assert {check.name for check in result.proof.checks if not check.passed} == {"digest", "trace", "energy"}
