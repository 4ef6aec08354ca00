"""Whether the rows should be divided anew: by how long each worker takes for those that it has."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORTH: Final = 1.2  # so many times as long as it could, the slowest worker has to take


class Balance:
    """How long workers take for their rows since these were divided.

    Args:
        cost_s: How long it took to hand the rows out: dividing them anew costs about as much.
    """

    def __init__(self, cost_s: float) -> None:
        self._cost_s = cost_s
        self._rounds = -1  # the first one after rows were handed out is not counted: it also loads and warms up
        self._rows: dict[str, int] = {}
        self._seconds: dict[str, float] = defaultdict(float)

    def add(self, rows: Mapping[str, int], seconds: Mapping[str, float]) -> None:
        """A round has ended.

        Args:
            rows: Of each worker that has some.
            seconds: How long each of them worked.
        """
        self._rounds += 1
        self._rows = dict(rows)
        if self._rounds > 0:
            for worker in rows:
                self._seconds[worker] += seconds[worker]

    def better_rates(self) -> dict[str, float] | None:
        """The rows of each worker in a second, once the time that was lost by other rates exceeds the cost."""
        if self._rounds < 1 or not all(self._seconds[worker] > 0 for worker in self._rows):
            return None
        rates = {worker: rows * self._rounds / self._seconds[worker] for worker, rows in self._rows.items()}
        slowest_s = max(self._seconds[worker] for worker in self._rows)
        even_s = self._rounds * sum(self._rows.values()) / sum(rates.values())
        is_worth_it = slowest_s > _WORTH * even_s and slowest_s - even_s > self._cost_s
        return rates if is_worth_it else None
