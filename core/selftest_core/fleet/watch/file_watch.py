"""Watch of folders: an immediate call after a change, without what changed.

watchfiles in a thread of its own. Folders are watched without their subfolders: an agent's `activity/process` is
rewritten every five seconds, and a hundred agents would keep a recursive watch busy. When the kernel refuses (the limit
of watches is reached, a folder is gone), that is reported once and retried: the caller polls anyway.
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
"""Changes within this time are reported once; it is also how long stopping takes."""
DEBOUNCE_MILLISECONDS = 60
RETRY_SECONDS = 15.0
_GONE_SECONDS = 1.0
_NOISE = ("/activity/process", "/events.jsonl", ".lock", ".log", ".tmp", ".swp")


class FileWatch:
    """Watch of folders until `stop`. `on_change` and `on_problem` (None: it is over) are called in its thread."""

    def __init__(self, on_change: Callable[[], None], on_problem: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._on_problem = on_problem
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
        problem = None
        while True:
            with self._lock:
                self._turn.clear()
                paths = self._paths
                if self._is_stopping:
                    return
                if not paths:
                    self._wake.wait()
                    continue
            found = self._watch(paths, had_problem=problem is not None)
            if found != problem:
                self._on_problem(found)
            problem = found
            if found is not None:
                self._turn.wait(RETRY_SECONDS)

    def _watch(self, paths: tuple[Path, ...], *, had_problem: bool) -> str | None:
        """Watch until other folders are given, or it fails; return the error, None if it did not fail."""
        from watchfiles import watch

        try:
            changes = watch(
                # One folder that cannot be read must not end the watch of all others.
                *(path for path in paths if os.access(path, os.R_OK) or not path.exists()),
                watch_filter=_is_significant,
                debounce=DEBOUNCE_MILLISECONDS,
                step=STEP_MILLISECONDS,
                # Changes before the watch began are not reported: look once when it begins.
                stop_event=_Turn(self._turn, on_begin=self._on_change),
                rust_timeout=1_000 if had_problem else 60_000,
                yield_on_timeout=had_problem,
                raise_interrupt=False,
                recursive=False,
                # True would hide all other errors of the kernel too.
                ignore_permission_denied=False,
            )
            for seen in changes:
                if had_problem:
                    had_problem = False
                    self._on_problem(None)
                if seen:
                    self._on_change()
        except FileNotFoundError:
            # A folder was removed since the last look: the next look names others.
            self._on_change()
            self._turn.wait(_GONE_SECONDS)
        except (OSError, RuntimeError) as error:
            return str(error) or type(error).__name__
        return None


class _Turn:
    """Stop event for watchfiles, which first asks for it when its watches are set up."""

    def __init__(self, turn: threading.Event, on_begin: Callable[[], None]) -> None:
        self._turn = turn
        self._on_begin: Callable[[], None] | None = on_begin

    def is_set(self) -> bool:
        on_begin, self._on_begin = self._on_begin, None
        if on_begin is not None:
            on_begin()
        return self._turn.is_set()


def _is_significant(change: Change, path: str) -> bool:
    return not path.endswith(_NOISE)
