"""Where the lines, bars and ticks of the report's charts lie: numbers for a template, no drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.render.axes import BOTTOM, LEFT, RIGHT, TOP, Tick, ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.verify import GpuRate, GpuSamples, Series

WIDTH, HEIGHT = 640, 150
PASS_FRACTION = 0.75
QUANTITIES = {
    "temperature_c": ("Temperature", "°C"),
    "sm_clock_mhz": ("SM clock", "MHz"),
    "memory_clock_mhz": ("Memory clock", "MHz"),
    "power_w": ("Power", "W"),
}
IDLE = 0x1
REASONS = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}


@dataclass(frozen=True, kw_only=True)
class Band:
    """A time during which something held the clocks down, in pixels."""

    left: float
    width: float


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """One quantity of one GPU over the run; `points` is as SVG's polyline wants it."""

    name: str
    unit: str
    points: str
    lowest: float
    highest: float
    last: float
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]
    bands: tuple[Band, ...]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rate; `good_at` and `line_at` are where the known-good rate and the pass line lie, None where none is known."""

    rate: GpuRate
    width: float
    good_at: float | None
    line_at: float | None


def line_charts(gpu: GpuSamples) -> list[LineChart]:
    """A chart for each quantity that this GPU told at least once."""
    held = [(sample.at_s, bool((sample.throttle or 0) & ~IDLE)) for sample in gpu.samples]
    drawn = ((words, gpu.series(quantity)) for quantity, words in QUANTITIES.items())
    return [_line_chart(*words, series, held) for words, series in drawn if series]


def _line_chart(name: str, unit: str, series: Series, held: Sequence[tuple[float, bool]]) -> LineChart:
    values = [value for _, value in series]
    # All charts of a GPU share the time of all its samples, so that they can be read one below the other.
    columns = ticks(held[-1][0])
    rows = ticks(max(values))
    right, top = columns[-1], rows[-1]

    def x(at_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / right, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)

    ends = [at_s for at_s, _ in held[1:]] + [held[-1][0]]
    bands = [
        Band(left=x(at_s), width=max(1.0, x(end) - x(at_s))) for (at_s, on), end in zip(held, ends, strict=True) if on
    ]
    return LineChart(
        name=name,
        unit=unit,
        points=" ".join(f"{x(at_s)},{y(value)}" for at_s, value in series),
        lowest=min(values),
        highest=max(values),
        last=values[-1],
        columns=tuple(Tick(at=x(number), label=f"{number:g} s") for number in columns),
        rows=tuple(Tick(at=y(number), label=f"{number:g}") for number in rows),
        bands=tuple(bands),
    )


def bars(rates: Sequence[GpuRate]) -> list[Bar]:
    """Bars of one kernel on one scale, which also holds the known-good rates."""
    goods = [rate.known_good.good for rate in rates if rate.known_good]
    scale = (WIDTH - LEFT - RIGHT) / (max([*(rate.median for rate in rates), *goods], default=0.0) * 1.05 or 1.0)
    return [
        Bar(
            rate=rate,
            width=round(rate.median * scale, 1),
            good_at=round(LEFT + rate.known_good.good * scale, 1) if rate.known_good else None,
            line_at=round(LEFT + PASS_FRACTION * rate.known_good.good * scale, 1) if rate.known_good else None,
        )
        for rate in rates
    ]


def reasons(gpu: GpuSamples) -> str:
    """What held the clocks down at any time of the run; empty where nothing did."""
    bits = 0
    for sample in gpu.samples:
        bits |= (sample.throttle or 0) & ~IDLE
    unknown = bits & ~sum(REASONS)
    words = [word for bit, word in REASONS.items() if bits & bit]
    return ", ".join([*words, f"bits {unknown:#x}"] if unknown else words)
