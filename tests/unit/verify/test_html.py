from __future__ import annotations

import re
from datetime import datetime, timezone
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from gpuprov.shapes.base import changed
from gpuprov.shapes.verify import GpuRate, GpuSamples, KnownGood, Measured, Report, Sample
from gpuprov.verify.html import render_html
from tests.fakes.chain import judge_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.verify import Level, NodeReport
    from gpuprov.verify.models import Expectation, Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
SVG = "{http://www.w3.org/2000/svg}"
KNOWN = KnownGood(good=39000.0, fraction=0.5, verdict="bad", source="measured by somebody")
RATE = GpuRate(kernel="matmul", gpu="GPU-1", model="NVIDIA H100", unit="GFLOP/s", median=19500.0, known_good=KNOWN)
SAMPLES = tuple(
    Sample(at_s=second / 2, temperature_c=40.0 + second, sm_clock_mhz=1980.0, throttle=0x41 if second > 5 else 1)
    for second in range(10)
)
MEASURED = Measured(rates=(RATE,), gpus=(GpuSamples(uuid="GPU-1", samples=SAMPLES),))
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Checks that every element is closed in order; gathers the tags, the attributes and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page(*nodes: NodeReport, level: Level = "full") -> str:
    return render_html(Report(cluster="lab", nodes=nodes, duration_s=2.5, level=level), made_at=NOW)


def charts(text: str) -> list[ET.Element]:
    found = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    return [ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)) for svg in found]


@pytest.fixture
def real(build_case: Build) -> NodeReport:
    return changed(judge_node(*build_case({"base": "real"})), measured=MEASURED)


@pytest.fixture
def simulated(build_case: Build) -> NodeReport:
    return changed(judge_node(*build_case({"base": "simulated"})), measured=changed(MEASURED, rates=()))


def test_the_file_holds_itself(real: NodeReport, simulated: NodeReport) -> None:
    read = Reader(page(real, simulated))
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in read.attributes}
    assert not re.search(r"https?://|@import|url\((?!#)", page(real, simulated))
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in read.attributes


def test_a_rate_stands_beside_the_known_good_one(real: NodeReport) -> None:
    chart = charts(page(real))[0]
    (bar,) = chart.findall(f"{SVG}rect")
    good, line = chart.findall(f"{SVG}line")
    left = float(bar.get("x", 0))
    reach = float(good.get("x1", 0)) - left
    assert float(bar.get("width", 0)) / reach == pytest.approx(0.5, abs=0.01)
    assert (float(line.get("x1", 0)) - left) / reach == pytest.approx(0.75, abs=0.01)
    assert line.get("stroke-dasharray")
    words = " ".join(str(text.text) for text in chart.findall(f"{SVG}text"))
    assert "19,500 GFLOP/s, 0.50 of 39,000: bad NVIDIA H100, GPU-1" in words
    assert page(real).count("NVIDIA H100: measured by somebody") == 1


def test_a_rate_without_a_known_good_one_says_so(real: NodeReport) -> None:
    node = changed(real, measured=Measured(rates=(changed(RATE, known_good=None),)))
    assert "no expectation: no known-good rate" in page(node)
    assert charts(page(node))[0].findall(f"{SVG}line") == []


def test_each_quantity_that_was_told_has_a_chart_within_its_frame(real: NodeReport) -> None:
    text = page(real)
    drawn = [chart for chart in charts(text) if chart.find(f"{SVG}polyline") is not None]
    assert [str(chart.get("aria-label")).partition(" of ")[0] for chart in drawn] == ["Temperature", "SM clock"]
    for chart in drawn:
        line = chart.find(f"{SVG}polyline")
        assert line is not None
        points = [tuple(map(float, point.split(","))) for point in str(line.get("points")).split()]
        assert len(points) == len(SAMPLES)
        assert all(56 <= x <= 624 and 10 <= y <= 128 for x, y in points)
    assert "40 to 49, at the end 49" in Reader(text).text


def test_throttling_is_hatched_and_named_idle_is_not(real: NodeReport, simulated: NodeReport) -> None:
    chart = charts(page(real))[1]
    bands = [rect for rect in chart.findall(f"{SVG}rect") if rect.get("fill") == "url(#hatch)"]
    assert len(bands) == 4
    assert "held down (hatched) by: hardware thermal slowdown." in page(real)
    quiet = Measured(gpus=(GpuSamples(uuid="GPU-1", samples=SAMPLES[:3]),))
    assert "Nothing held the clocks down." in page(changed(simulated, measured=quiet))


def test_simulated_is_said_everywhere_and_only_where_it_is_true(real: NodeReport, simulated: NodeReport) -> None:
    text = Reader(page(simulated)).text
    assert text.count("SIMULATED") > 8
    for part in ("pass SIMULATED: cluster lab", "1 SIMULATED", "GPU-1 SIMULATED", "(SIMULATED)", "SIMULATED GPUs have"):
        assert part in text
    assert "SIMULATED" not in page(real)


def test_problems_come_with_their_fix_and_no_meaning_hangs_on_colour(build_case: Build) -> None:
    text = Reader(page(judge_node(*build_case({"base": "real", "facts": {"cuda": {"code": 999}}})))).text
    assert "✗ fail: cuda-init cuInit returned 999 nvidia-modprobe" in text
    assert "✗ fail" in text
    assert "\N{EN DASH} skip" in text


def test_what_a_node_says_is_text(real: NodeReport) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    check = changed(real.checks[0], status="fail", evidence=evil, fix=evil)
    rate = changed(RATE, unit=evil, model=evil, gpu=evil, known_good=changed(KNOWN, verdict=evil, source=evil))
    gpu = GpuSamples(uuid=evil, samples=SAMPLES)
    bad = changed(real, checks=(check,), measured=Measured(rates=(rate,), gpus=(gpu,), problem=evil))
    read = Reader(page(bad))
    assert not {"script", "img"} & set(read.tags)
    assert evil in "".join(read.words)


def test_the_quick_level_says_where_the_charts_are(real: NodeReport) -> None:
    text = page(changed(real, measured=None), level="quick")
    assert "gpuprov verify --level full" in text
    assert "None was measured." in text


def test_one_sample_of_nothing_is_drawn(real: NodeReport) -> None:
    gpu = GpuSamples(uuid="GPU-1", samples=(Sample(at_s=0.0, temperature_c=0.0, throttle=0x1000),))
    text = page(changed(real, measured=Measured(gpus=(gpu,), problem="GPU is lost")))
    assert "bits 0x1000" in text
    assert "the samples end early: GPU is lost" in Reader(text).text
