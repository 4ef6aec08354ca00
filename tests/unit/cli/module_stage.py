"""Ansible's modules as a test calls them."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

MODULES = "ansible_collections.gpuprov.cluster.plugins.modules"


def warn(_text: str) -> None:
    """A test may listen."""


def act(module_name: str, *, check: bool = False, **given: Any) -> dict[str, Any]:
    """The results of a module that was given these parameters, its defaults for the others."""
    module = importlib.import_module(f"{MODULES}.{module_name}")
    defaults = {key: about.get("default") for key, about in module.ARGUMENTS.items()}
    stand_in = SimpleNamespace(params={**defaults, **given}, check_mode=check, _diff=False, warn=warn)
    results: dict[str, Any] = module.act(stand_in)
    return results
