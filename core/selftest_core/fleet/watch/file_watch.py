"""Says at once that something changed in the watched folders; what changed is for the probe to find out.

watchfiles in a thread of its own. Folders are watched one by one, not their trees: an agent's `activity/process` is
rewritten every five seconds, and a hundred agents would keep a recursive watch awake for nothing. When the kernel
refuses (its limit of watches is reached, the folder is gone), that is told once, and tried again now and then: the
caller polls anyway, so nothing is lost but speed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from watchfiles import Change

STEP_MILLISECONDS = 20
"""Changes that follow each other within this are one; it is also how long stopping takes."""
DEBOUNCE_MILLISECONDS = 60
RETRY_SECONDS = 15.0
_GONE_SECONDS = 1.0
_NOISE = ("/activity/process", "/events.jsonl", ".lock", ".log", ".tmp", ".swp")


class FileWatch:
    """Watches folders until `stop`. `on_change` and `on_trouble` (None: it is over) are called in its thread."""

    def __init__(self, on_change: Callable[[], None], on_trouble: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._turn = threading.Event()
        self._paths: tuple[Path, ...] = ()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def watch(self, paths: Sequence[Path]) -> None:
        """Watch these folders from now on, instead of those before."""
        with self._lock:
            if self._is_stopping or tuple(paths) == self._paths:
                return
            self._paths = tuple(paths)
            self._turn.set()
            self._wake.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="file watch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it: some 20 ms."""
        with self._lock:
            self._is_stopping = True
            self._turn.set()
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        trouble = None
        while True:
            with self._lock:
                self._turn.clear()
                paths = self._paths
                if self._is_stopping:
                    return
                if not paths:
                    self._wake.wait()
                    continue
            said = self._watch(paths, had_trouble=trouble is not None)
            if said != trouble:
                self._on_trouble(said)
            trouble = said
            if said is not None:
                self._turn.wait(RETRY_SECONDS)

    def _watch(self, paths: tuple[Path, ...], *, had_trouble: bool) -> str | None:
        """Watch until the folders change or it fails; says how it failed, None where it did not."""
        from watchfiles import watch

        try:
            changes = watch(
                # A folder of somebody else's must not cost the watch of all the others.
                *(path for path in paths if os.access(path, os.R_OK) or not path.exists()),
                watch_filter=_is_telling,
                debounce=DEBOUNCE_MILLISECONDS,
                step=STEP_MILLISECONDS,
                # What changed while nobody watched is not told by anyone.
                stop_event=_Turn(self._turn, on_begin=self._on_change),
                rust_timeout=1_000 if had_trouble else 60_000,
                yield_on_timeout=had_trouble,
                raise_interrupt=False,
                recursive=False,
                # True would keep silent about every other refusal of the kernel too.
                ignore_permission_denied=False,
            )
            for seen in changes:
                if had_trouble:
                    had_trouble = False
                    self._on_trouble(None)
                if seen:
                    self._on_change()
        except FileNotFoundError:
            # A folder went between the look that named it and now: the next look names others.
            self._on_change()
            self._turn.wait(_GONE_SECONDS)
        except (OSError, RuntimeError) as error:
            return str(error) or type(error).__name__
        return None


class _Turn:
    """Whether to stop, as watchfiles asks; it does so first when its watches are laid."""

    def __init__(self, turn: threading.Event, on_begin: Callable[[], None]) -> None:
        self._turn = turn
        self._on_begin: Callable[[], None] | None = on_begin

    def is_set(self) -> bool:
        on_begin, self._on_begin = self._on_begin, None
        if on_begin is not None:
            on_begin()
        return self._turn.is_set()


def _is_telling(change: Change, path: str) -> bool:
    return not path.endswith(_NOISE)
