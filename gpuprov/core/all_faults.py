"""All that is wrong with what was typed, told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Value = TypeVar("Value")


class AllFaults:
    """Keeps the errors of options, so that the second one is told with the first."""

    def __init__(self) -> None:
        self._errors: list[UsageError] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._errors)

    def found(self, make: Callable[[], Value]) -> Value | None:
        """What is made; None where that is an error, which is kept."""
        try:
            return make()
        except UsageError as error:
            self.add(error)
            return None

    def add(self, error: UsageError) -> None:
        """Keep it."""
        self._errors.append(error)

    def tell(self, nothing: str) -> None:
        """Go on only if nothing was wrong.

        Args:
            nothing: What was not done, in words.

        Raises:
            UsageError: With all errors.
        """
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise UsageError(
                f"{len(self._errors)} things are wrong with the command; {nothing}",
                evidence="\n".join(f"{error.what}: {error.evidence}" for error in self._errors),
                fix="\n".join(dict.fromkeys(error.fix for error in self._errors)),
            )
