"""Signs that a play goes on: its tasks' events, and what processes do that its tasks have started."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuprov.core.activity import Activity, grown
from gpuprov.core.limits import Limits, Watch
from gpuprov.provision.events import is_sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuprov.core.activity import Activities

    FindActivities = Callable[[], Activities]

_LOOKS = 10  # within the limit; a play that reports is not looked at


class Signs:
    """Counts them, and tells when there was none for too long.

    Args:
        silence_s: For how long there may be none.
        looks: Each tells what the processes of one machine do; it may fail, and may take its time.

    Attributes:
        verdict: That there was none for too long, in words; empty until then.
        last_line: Of what Ansible has said.
    """

    def __init__(self, silence_s: float, looks: Sequence[FindActivities]) -> None:
        self.verdict = self.last_line = ""
        self._pause_s = silence_s / _LOOKS
        self._looks = looks
        self._heard = 0
        self._done = Activity()
        self._watch = Watch(Limits(silence_s=silence_s), now_s=time.monotonic())

    def hear(self, raw: Mapping[str, Any]) -> None:
        """Take an event of ansible-runner in."""
        self._heard += is_sign(raw)
        said = str(raw.get("stdout") or "").split("\n")
        self.last_line = next((line.strip() for line in reversed(said) if line.strip()), self.last_line)

    def judge(self) -> str:
        """The verdict, as of now."""
        if not self.verdict:
            self.verdict = self._watch.judge(now_s=time.monotonic(), written=self._heard, activity=self._done)
        return self.verdict

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at processes during the block, each machine in a thread of its own, which ends with this process."""
        over = threading.Event()
        for look in self._looks:
            threading.Thread(target=self._keep_looking, args=(look, over), daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _keep_looking(self, look: FindActivities, over: threading.Event) -> None:
        before: Activities = {}
        heard = -1
        while not over.wait(self._pause_s):
            now: Activities = {}
            if heard == self._heard:
                now = _seen(look)
                self._add(grown(before, now))
            before, heard = now, self._heard

    def _add(self, more: Activity) -> None:
        ticks, moved_bytes = self._done.ticks + more.ticks, self._done.moved_bytes + more.moved_bytes
        self._done = Activity(ticks=ticks, moved_bytes=moved_bytes)


def _seen(look: FindActivities) -> Activities:
    try:
        return look()
    except Exception:  # noqa: BLE001 - whatever it is, it is no sign of work
        return {}
