"""A daemon that hangs is named, and what may be on it is not taken for absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.killing import hung_engine
from tests.e2e.test_refusals import has_three_parts

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov


@pytest.mark.parametrize(
    ("engine", "argv"),
    [("docker", ("cluster", "down", "gpte2e-none")), ("lxd", ("exec", "gpte2e-none", "--", "true"))],
)
def test_what_may_be_on_a_hung_engine_is_not_absent(
    gpuprov: Gpuprov,
    docker: Any,  # noqa: ARG001 - it runs
    engine: str,
    argv: tuple[str, ...],
) -> None:
    with hung_engine(engine):
        refused = gpuprov(*argv, expect=4)
        has_three_parts(refused)
        assert "on the engines that respond" in refused.stderr
        assert f"{engine} does not respond" in refused.stderr
