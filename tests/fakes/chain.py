"""The chain of a node with the checks of every plane, as `verify` asks it."""

from __future__ import annotations

from functools import partial

from gpuprov.planes.registry import CHECKS
from gpuprov.verify import chain

CHAIN = (*chain.CHAIN, *CHECKS)
judge_node = partial(chain.judge_node, more=CHECKS)
rules_of = partial(chain.rules_of, more=CHECKS)
