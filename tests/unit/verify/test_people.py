"""What a node runs to give folders to whom they are to belong."""

from __future__ import annotations

import pytest

from gpuprov.verify.checks.people import _render_give

ANN = "/shared/home/ann: belongs to 7:7 instead of 10001:10001"
BOB = "/shared/home/bob: belongs to 7:7 instead of 10002:10002"


@pytest.mark.parametrize(
    ("troubles", "give"),
    [
        ([ANN], "chown -R 10001:10001 /shared/home/ann"),
        ([ANN, BOB], "sh -c 'chown -R 10001:10001 /shared/home/ann; chown -R 10002:10002 /shared/home/bob'"),
        (["/shared/x y: belongs to 0:0 instead of 1:1"], "chown -R 1:1 '/shared/x y'"),
        (["/shared: its mode is not 711"], "/usr/lib/gpuprov/settle-people"),
    ],
)
def test_owners_and_folders_are_those_that_the_node_says(troubles: list[str], give: str) -> None:
    assert _render_give(troubles) == give
