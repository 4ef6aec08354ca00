"""Run the anneal kernel and prove that it found the planted ground state."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from smoke_kernels.anneal.launch import default_copies, run_problem
from smoke_kernels.anneal.problem import ProblemKey, build_problem
from smoke_kernels.anneal.proof import check_energy, check_traces
from smoke_kernels.anneal.single import SMALLEST_SIZE as SMALLEST_SINGLE
from smoke_kernels.backend import SIMULATED
from smoke_kernels.golden import check_digests
from smoke_kernels.hashing import render_digest
from smoke_kernels.multiprocessors import Census
from smoke_kernels.result import KernelResult, Proof

if TYPE_CHECKING:
    from smoke_kernels.anneal.launch import Runs
    from smoke_kernels.anneal.problem import AnnealProblem
    from smoke_kernels.options import Options
    from smoke_kernels.result import Check

RATE_SWEEPS: Final = 64
RATE_SWEEPS_INDEPENDENT: Final = 8
RATE_SWEEPS_ONE_REPLICA: Final = 32


def proof_key(options: Options) -> ProblemKey:
    """Return the problem whose ground state is asked for."""
    size, sweeps = 64, 1000
    if SIMULATED:
        size, sweeps = (8, 32) if options.quick else (16, 64)
        if options.one_replica:
            size, sweeps = (SMALLEST_SINGLE, 4 if options.quick else 16)
    return ProblemKey(
        size=options.size or size,
        sweeps=options.sweeps or sweeps,
        seed=options.seed,
        independent=options.independent,
        one_replica=options.one_replica,
    )


def rate_key(options: Options) -> ProblemKey:
    """Return the problem whose rate is measured: one that fills a GPU, unless the user named a problem."""
    if SIMULATED or options.size or options.sweeps:
        return proof_key(options)
    sweeps = RATE_SWEEPS_INDEPENDENT if options.independent else RATE_SWEEPS
    if options.one_replica:
        sweeps = RATE_SWEEPS_ONE_REPLICA
    size = 2048 if options.quick or options.independent else 4096
    return replace(proof_key(options), size=size, sweeps=sweeps)


def run_anneal(options: Options) -> KernelResult:
    """Anneal, digest the final spins on the device, and recompute every replica's energy on the host.

    Raises:
        UsageError: the size is not one this kernel can take.
    """
    started = time.perf_counter()
    repeats = options.repeats or (1 if SIMULATED else 5)
    proof_name, rate_name = proof_key(options), rate_key(options)
    one_problem = proof_name == rate_name
    problem = build_problem(proof_name)
    rate_problem = problem if one_problem else build_problem(rate_name)
    prepared = time.perf_counter()
    census = Census()
    runs = run_problem(
        problem,
        repeats=repeats if one_problem else 2,
        seconds=options.seconds if one_problem else 0.0,
        census=census,
        copies=default_copies(problem),
    )
    rate_runs = runs
    if not one_problem:
        rate_runs = run_problem(rate_problem, repeats=repeats, seconds=options.seconds, census=census)
    ran = time.perf_counter()
    best = problem.golden_best_energy
    energy, energy_details = check_energy(problem.lattice, runs.spins, expected_best=best, replicas=proof_name.replicas)
    checks: tuple[Check, ...] = (*_check_runs(runs, problem), energy)
    if not one_problem:
        checks += tuple(replace(check, name=f"rate-{check.name}") for check in _check_runs(rate_runs, rate_problem))
    flips = rate_runs.copies * rate_name.replicas * rate_name.size**2 * rate_name.sweeps
    return KernelResult(
        kernel="anneal",
        simulated=SIMULATED,
        parameters={
            "size": proof_name.size,
            "sweeps": proof_name.sweeps,
            "replicas": proof_name.replicas,
            "copies": runs.copies,
            "randoms": "independent" if options.independent or options.one_replica else "shared",
            "rate_size": rate_name.size,
            "rate_sweeps": rate_name.sweeps,
            "seed": options.seed,
            "repeats": rate_runs.rounds,
            "batch": rate_runs.stopwatch.launches,
        },
        proof=Proof(
            digest=render_digest(runs.digests[-1]),
            golden=render_digest(problem.golden),
            golden_source=problem.golden_source,
            checks=(*checks, census.check()),
            details={"energy": energy_details, **census.details()},
        ),
        rate=rate_runs.stopwatch.rate("flips/ns", flips / 1e9),
        seconds={"prepare": prepared - started, "device": ran - prepared, "prove": time.perf_counter() - ran},
    )


def _check_runs(runs: Runs, problem: AnnealProblem) -> tuple[Check, ...]:
    return (*check_digests(runs.digests, problem.golden), *check_traces(runs.traces, problem.golden_trace))
