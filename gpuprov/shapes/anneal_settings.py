"""How a model is annealed, and what each setting may be."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Shape
from gpuprov.shapes.limits import LONGEST_S, MOST_CHAINS

_MOST_STEPS = 10**12
Dimensions = Annotated[int, Meta(ge=0, le=16_384, extra={"allowed": "0 to 16,384 random numbers for each step"})]
Steps = Annotated[int, Meta(ge=1, le=_MOST_STEPS)]
Every = Annotated[int, Meta(ge=1, le=_MOST_STEPS, extra={"allowed": f"1 to {_MOST_STEPS:,} steps"})]
Threads = Annotated[int, Meta(ge=1, le=MOST_CHAINS)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300, extra={"allowed": "a number"})]
Limit = Annotated[int, Meta(ge=1, le=LONGEST_S, extra={"allowed": f"1 to {LONGEST_S:,} seconds"})]
Seed = Annotated[int, Meta(ge=-(2**63), extra={"allowed": "a whole number of 64 bits"})]  # and below 2**64


class AnnealSettings(Shape, frozen=True, kw_only=True):
    """What is asked of a model.

    Attributes:
        dimensions: How many random numbers each step gets; not the length of a state.
        distribution: Of these numbers.
        precision: Of states, energies and temperatures.
        max_steps: After so many a chain stops.
        initial_temp: The temperature of the first step.
        min_temp: At or below this a chain stops; with `replicas`, the temperature of the coldest.
        thread_count: How many chains.
        threads_per_block: Null: as many as the device holds best.
        blocks_per_grid: Null: as many as the chains need.
        random_seed: The same seed gives the same bits on one kind of device.
        target: A chain whose best value is at or below this stops, and so do the others of its part soon after.
        exchange_every: With `replicas`: after so many steps, neighbours may exchange their temperatures.
        replicas: How many chains, each at a temperature of its own, exchange them (parallel tempering); null: chains
            cool by themselves.
        compile_limit_s: How long compiling may take.
        run_limit_s: How long the chains of a part may run.
        merge_limit_s: How long merging may take.
    """

    dimensions: Dimensions
    distribution: Literal["normal", "uniform"] = "uniform"
    precision: Literal["float32", "float64"] = "float32"
    max_steps: Steps = 100_000
    initial_temp: Finite = 1000
    min_temp: Finite = 0.0
    thread_count: Threads = 128
    threads_per_block: Annotated[int, Meta(ge=1, le=1024)] | None = None
    blocks_per_grid: Threads | None = None
    random_seed: Seed = 42
    target: Finite | None = None
    exchange_every: Every | None = None
    replicas: Annotated[int, Meta(ge=2, le=1024)] | None = None
    compile_limit_s: Limit = 600
    run_limit_s: Limit = 24 * 3600
    merge_limit_s: Limit = 600

    @property
    def is_tempering(self) -> bool:
        """Whether chains exchange temperatures instead of cooling."""
        return self.replicas is not None
