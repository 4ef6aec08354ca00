"""How fast the smoke kernels are beside what NVIDIA made."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Record, Shape, Version
from gpuprov.shapes.smoke import Rate, SmokeDevice, Text


class MatmulRate(Shape, frozen=True, kw_only=True):
    """The product of two square matrices.

    Attributes:
        size: Rows of each.
        cublas_tflops: Null without cuBLAS.
    """

    size: Annotated[int, Meta(ge=1)]
    tflops: Rate
    cublas_tflops: Rate | None


class CopyRate(Shape, frozen=True, kw_only=True):
    """A copy within the GPU's memory; read plus write."""

    bytes: Annotated[int, Meta(ge=0)]
    gb_per_s: Rate
    driver_gb_per_s: Rate


class AnnealRate(Shape, frozen=True, kw_only=True):
    """Flips of spins."""

    variant: Text
    flips_per_ns: Rate


class KernelRates(Record, frozen=True, kw_only=True, tag="gpuprov.kernel-rates/v1"):
    """The document of `python3 -m benchmarks.kernels --json`: rates on a GPU, beside those of cuBLAS and the driver.

    Attributes:
        passed: Always true: a kernel whose proof does not hold ends the run without a document.
        why: Why there is no rate of cuBLAS; empty where there is one.
        repeats: Batches of which each rate is the median.
    """

    version: Version | UnsetType = UNSET  # type: ignore[assignment]
    passed: bool
    why: str
    device: SmokeDevice
    repeats: Annotated[int, Meta(ge=1)]
    matmul: tuple[MatmulRate, ...]
    copy: CopyRate
    anneal: tuple[AnnealRate, ...]
