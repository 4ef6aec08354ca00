"""The chain of a node with the checks of every role, as `verify` asks it."""

from __future__ import annotations

from functools import partial

from gpuprov.roles.registry import checks_of_roles
from gpuprov.verify import chain

CHAIN = (*chain.CHAIN, *checks_of_roles())
judge_node = partial(chain.judge_node, more=checks_of_roles())
rules_of = partial(chain.rules_of, more=checks_of_roles())
