"""The chain of a node with the checks of every plane, as `verify` asks it."""

from __future__ import annotations

from functools import partial

from gpuprov.roles.registry import checks_of_planes
from gpuprov.verify import chain

CHAIN = (*chain.CHAIN, *checks_of_planes())
judge_node = partial(chain.judge_node, more=checks_of_planes())
rules_of = partial(chain.rules_of, more=checks_of_planes())
