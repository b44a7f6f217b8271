"""Collector: one process that records many panes, and ends when nothing is left to record.

Orders are lines of a file, so the sender never waits, and a collector that is started again after a kill reads them
again. It waits for panes that do not exist yet. It sleeps a little between reads: many small outputs of a busy pane
become one event, and fifty panes cost a few percent of a core. It never blocks on a pane.

    {"do": "record", "name": NAME, "file": PATH, "agent_id": ID | "session": SESSION, "title": TEXT,
     "repository": FOLDER, "at": SECONDS}               of its work tree, whose commits since then become markers
    {"do": "mark", "name": NAME, "label": TEXT, "at": SECONDS}
    {"do": "finish", "name": NAME, "link": PATH}        the agent is being stopped: end with its pane, or soon
    {"do": "end"}                                       finish everything, then end
    {"do": "begin"}                                     continue after an end: a new sender has started
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .panes import Pane, TmuxError, chosen, list_panes
from .recording import Order, Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from .masking import Masks

_SCAN = 0.5
_FLUSH = 0.25
_REST = 0.015
_GRACE = 5.0
"""Seconds after `finish` before the recording is ended though the pane still exists."""
_REAPED_IN = 20.0
"""Seconds to wait for the exit status of a program after its pane has died."""
_QUIET_LOOKS = 2
"""Reads of a dead pane without output after which its output is complete."""
_SILENT_FOR = 300.0
"""Seconds without an answer of tmux after which its panes count as gone."""
LIMIT = 48 * 1024 * 1024
"""Largest size of one recording in bytes."""


class Orders:
    """The file of orders, read line by line as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """Return the new complete orders. Unreadable lines are skipped."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found


class Collector:
    """Records panes of one tmux server by orders."""

    def __init__(
        self,
        socket: str,
        fifos: Path,
        orders: Orders,
        masks: Masks,
        limit: int = LIMIT,
        owner: Path | None = None,
        patience: float = float("inf"),
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`owner`: a file that the sender of orders holds locked; once it is free, the collector ends with its panes.

        `patience`: seconds to wait for a pane that does not appear.
        """
        self._socket = socket
        self._fifos = fifos
        self._orders = orders
        self._masks = masks
        self._patience = patience
        self._began = time.monotonic()
        self._limit = limit
        self._owner = owner
        self._say = say
        self._recordings: dict[str, Recording] = {}
        self._finish_by: dict[str, float] = {}
        self._reaped_by: dict[str, float] = {}
        self._heard: dict[str, tuple[int, int]] = {}
        self._refused: set[str] = set()
        self._silences = 0
        self._answered_at = time.monotonic()
        self._links: dict[str, Path] = {}
        self._is_ending = False
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, Recording] = {}

    def run(self) -> None:
        """Record until all orders are done."""
        next_scan = next_flush = 0.0
        try:
            while True:
                clock = time.monotonic()
                if clock >= next_flush:
                    self._take_orders()
                    self._flush()
                    next_flush = clock + _FLUSH
                if clock >= next_scan:
                    self._scan()
                    next_scan = clock + _SCAN
                    if self._is_done():
                        # The sender that let go has written all its orders by now.
                        self._take_orders()
                        if self._is_done():
                            return
                self._read(min(next_scan, next_flush) - time.monotonic())
        finally:
            for recording in self._recordings.values():
                self._end(recording)
            self._selector.close()

    def end(self) -> None:
        """Finish all recordings soon; safe to call from a signal handler."""
        self._is_ending = True

    def _is_done(self) -> bool:
        if any(not one.is_over for one in self._recordings.values() if one.is_open):
            return self._is_ending
        return self._is_ending or not self._is_owned()

    def _is_owned(self) -> bool:
        if self._owner is None:
            is_late = time.monotonic() - self._began > self._patience
            return any(not one.is_over for one in self._recordings.values()) and not is_late
        try:
            handle = os.open(self._owner, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def _read(self, patience: float) -> None:
        if not self._watched:
            time.sleep(max(patience, 0.0))
            return
        ready = self._selector.select(max(patience, 0.0))
        now = time.time()
        for key, _ in ready:
            recording = key.data
            try:
                goes_on = recording.read(now)
            except OSError as error:
                self._fail(recording, str(error))
                continue
            if not goes_on:
                self._unwatch(recording)
                recording.close_pipe()
        if ready:
            time.sleep(_REST)

    def _take_orders(self) -> None:
        for order in self._orders.new():
            name, what = str(order.get("name", "")), order.get("do")
            recording = self._recordings.get(name)
            if what == "record" and recording is None and order.get("file"):
                agent_id, session, title, repository = (
                    str(order.get(key, "")) for key in ("agent_id", "session", "title", "repository")
                )
                since = float(order.get("at") or 0.0)
                wanted = Order(name, Path(str(order["file"])), agent_id, session, title, repository, since)
                for other in self._recordings.values():
                    if agent_id and other.order.agent_id == agent_id:
                        self._end(other)  # the agent goes on in another attempt, which has its pane from now on
                self._recordings[name] = Recording(wanted, self._socket, self._fifos, self._masks, self._limit)
            elif what == "mark" and recording is not None:
                try:
                    recording.mark(str(order.get("label", "")), float(order.get("at") or 0.0), ordered=True)
                except OSError as error:
                    self._fail(recording, str(error))
            elif what == "finish" and recording is not None:
                self._finish_by.setdefault(name, time.monotonic() + _GRACE)
                if order.get("link"):
                    self._links[name] = Path(str(order["link"]))
                if recording.is_over:
                    self._link(recording)
            elif what in ("begin", "end"):
                self._is_ending = what == "end"

    def _scan(self) -> None:
        if all(one.is_over for one in self._recordings.values()):
            return
        panes = self._panes()
        if panes is None:
            return
        # Orders from before the pane ended are done before it counts as gone.
        self._take_orders()
        waiting = [one for one in self._recordings.values() if not one.is_over]
        by_id = {pane.pane_id: pane for pane in panes}
        by_agent: dict[str, list[Pane]] = {}
        by_session: dict[str, list[Pane]] = {}
        for pane in panes:
            by_agent.setdefault(pane.agent_id, []).append(pane)
            by_session.setdefault(pane.session, []).append(pane)
        for recording in waiting:
            order = recording.order
            if recording.is_open and recording.pane_id:
                found = by_id.get(recording.pane_id)
                if found is not None and found.server != recording.server:
                    found = None
            elif order.agent_id:
                found = chosen(by_agent.get(order.agent_id, []))
            else:
                found = next((pane for pane in by_session.get(order.session, []) if pane.is_active), None)
            self._tend(recording, found)

    def _panes(self) -> list[Pane] | None:
        """Return the panes; None if tmux does not answer, so that missing data never stops a recording."""
        try:
            panes = list_panes(self._socket)
        except TmuxError as error:
            self._silences += 1
            if self._silences == 2:
                self._say(str(error))
            return None if time.monotonic() - self._answered_at < _SILENT_FOR else []
        self._silences = 0
        self._answered_at = time.monotonic()
        return panes

    def _tend(self, recording: Recording, pane: Pane | None) -> None:
        name = recording.order.name
        is_late = time.monotonic() > self._finish_by.get(name, float("inf"))
        if pane is None:
            if recording.is_open or is_late:
                self._end(recording)
            return
        if not pane.is_dead:
            self._reaped_by.pop(name, None)
        if pane.is_dead or is_late:
            if not recording.is_open:
                self._begin(recording, pane)
            if not is_late and self._may_bring_more(recording, pane):
                return
            self._end(recording, pane.exit_status if pane.is_dead else None)
        elif recording.is_cut:
            if recording.fd >= 0:
                self._unwatch(recording)
                recording.leave_pane()
        elif not recording.is_open or recording.needs_new_pipe(pane):
            self._begin(recording, pane)
        else:
            recording.look_for_secrets(pane)

    def _may_bring_more(self, recording: Recording, pane: Pane) -> bool:
        """Return True while a dead pane may still have output, or its exit status is not known."""
        if recording.is_over:
            return False
        name = recording.order.name
        heard, looks = self._heard.get(name, (-1, 0))
        looks = looks + 1 if heard == recording.heard else 0
        self._heard[name] = recording.heard, looks
        # tmux does not close the pipe of a dead pane, so there is no end of file to wait for.
        if recording.fd >= 0 and looks < _QUIET_LOOKS:
            return True
        if pane.is_reaped:
            return False
        # tmux 3.3 sometimes misses the signal that a program has ended.
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(pane.server[0]), signal.SIGCHLD)
        return time.monotonic() <= self._reaped_by.setdefault(name, time.monotonic() + _REAPED_IN)

    def _begin(self, recording: Recording, pane: Pane) -> None:
        if pane.has_pipe and not pane.is_dead and not recording.owns(pane.pipe):
            if not recording.is_kept_out:
                recording.is_kept_out = True
                self._say(f"{recording.order.name}: another program has the output of its pane")
            return
        self._unwatch(recording)
        try:
            recording.begin(pane, time.time())
        except TmuxError as error:
            # A single failure may be a pane that has just ended.
            if recording.order.name in self._refused:
                self._say(f"{recording.order.name}: {error}")
            self._refused.add(recording.order.name)
            return
        except OSError as error:
            self._fail(recording, str(error))
            return
        self._refused.discard(recording.order.name)
        if recording.is_over:
            self._link(recording)
        if recording.fd >= 0:
            self._selector.register(recording.fd, selectors.EVENT_READ, recording)
            self._watched[recording.fd] = recording

    def _unwatch(self, recording: Recording) -> None:
        if recording.fd in self._watched:
            del self._watched[recording.fd]
            self._selector.unregister(recording.fd)

    def _end(self, recording: Recording, exit_status: int | None = None) -> None:
        if recording.is_over:
            return
        self._unwatch(recording)
        try:
            recording.end(time.time(), exit_status)
        except OSError as error:
            self._say(f"{recording.order.name}: {error}")
        self._link(recording)

    def _link(self, recording: Recording) -> None:
        link = self._links.get(recording.order.name)
        if link is not None:
            recording.link(link)

    def _fail(self, recording: Recording, says: str) -> None:
        """End one recording after an error of its file; the others continue."""
        self._say(f"{recording.order.name}: {says}")
        self._end(recording)

    def _flush(self) -> None:
        now = time.time()
        for recording in self._recordings.values():
            if recording.is_open and not recording.is_over:
                try:
                    recording.flush(now)
                except OSError as error:
                    self._fail(recording, str(error))
