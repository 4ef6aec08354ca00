"""What every test may ask for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


class Recording:
    """A reporter that remembers, as lines, what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.lines.append(f"begin {name}")
        yield
        self.lines.append(f"end {name}")

    def node(self, name: str, state: str) -> None:
        self.lines.append(f"node {name} {state}")

    def note(self, text: str) -> None:
        self.lines.append(f"note {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"warn {text}")


@pytest.fixture
def recording() -> Recording:
    """A reporter whose `lines` a test can look at."""
    return Recording()
