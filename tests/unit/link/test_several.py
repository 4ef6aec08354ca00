"""The one error of several hosts."""

from __future__ import annotations

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.link.several import part_error
from gpuprov.spec.spec_error import SpecError


def test_an_error_of_this_machine_may_be_of_a_kind_that_takes_other_words() -> None:
    """It was raised in this process, where those of other hosts come as their kind alone."""
    own = SpecError("the spec cannot be read", problems=(), fix="gpuprov cluster up -f FILE")
    error = part_error({"here": own, "hoff": HostNotReady("hoff: no", evidence="e", fix="f")}, of=2)
    assert error is not None
    assert (type(error), error.fix) == (UsageError, own.fix)
    assert error.what == "not all hosts answered: here, hoff (2 of 2 hosts)"
