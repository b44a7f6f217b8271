"""Makes the demo's agents with the real mngr, two at a time, while the screen is up already.

`mngr create` spends a second thinking, so two at once halve the wait on two cores, and more would only push each
other. The first goes alone: it makes what all share (the host's id, its files). Stopping ends the creations that are
under way, with their children, and returns when they have ended.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolError, ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.tools.process import Running

AT_ONCE = 2
_DEADLINE = 120.0


@dataclass(frozen=True, slots=True)
class Order:
    """One agent to make: its name, and the arguments of `mngr`."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """One agent more is there, or failed to be made (`error`). `made` and `failed` of `total` so far."""

    name: str
    made: int
    failed: int
    total: int
    error: SelftestError | None = None

    @property
    def is_last(self) -> bool:
        """True when nothing is left to be made."""
        return self.made + self.failed == self.total


class Launch:
    """The making of some agents, in threads of its own. `on_progress` is called in those threads, one at a time."""

    def __init__(
        self,
        mngr: Path,
        orders: Sequence[Order],
        *,
        cwd: Path,
        env: Mapping[str, str],
        logs: Path,
        on_progress: Callable[[Progress], None],
        at_once: int = AT_ONCE,
    ) -> None:
        self._mngr = mngr
        self._orders = deque(orders)
        self._total = len(self._orders)
        self._cwd = cwd
        self._env = dict(env)
        self._logs = logs
        self._on_progress = on_progress
        self._at_once = at_once
        self._lock = threading.Lock()
        self._running: set[Running] = set()
        self._made = 0
        self._failed = 0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._all, name="launch demo agents", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every order is done or given up; False when the time was over first."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Make no more agents, and end the creations that are under way."""
        with self._lock:
            self._is_stopping = True
            self._orders.clear()
            running = tuple(self._running)
        for one in running:
            one.end()
        if self._thread.is_alive():
            self._thread.join()

    def _all(self) -> None:
        if self._total:
            self._next()
        workers = [threading.Thread(target=self._rest, daemon=True) for _ in range(self._at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _rest(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        with self._lock:
            if not self._orders:
                return False
            order = self._orders.popleft()
        error: SelftestError | None = None
        try:
            self._make(order)
        except SelftestError as raised:
            error = raised
        with self._lock:
            if self._is_stopping:
                return False
            self._made += error is None
            self._failed += error is not None
            self._on_progress(Progress(order.name, self._made, self._failed, self._total, error))
        return True

    def _make(self, order: Order) -> None:
        log = self._logs / f"{order.name}.log"
        argv = (str(self._mngr), *order.arguments)
        with self._lock:
            if self._is_stopping:
                return
            running = spawn(argv, cwd=self._cwd, env=self._env, output=log)
            self._running.add(running)
        try:
            status = running.wait(_DEADLINE)
        except ToolError:
            running.end()
            raise
        finally:
            with self._lock:
                self._running.discard(running)
        if status != 0:
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
            raise ToolFailedError(
                f"mngr could not create {order.name}", said, "See whether `selftest-tui doctor` finds the reason.",
                argv=argv, exit_status=status, stderr=said,
            )  # fmt: skip
