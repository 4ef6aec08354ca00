from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def own_garbage() -> Iterator[None]:
    """What a test leaves to be collected is collected after it; what was there before is not looked through."""
    gc.freeze()
    yield
    gc.collect()
