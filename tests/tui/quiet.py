"""Waits until an app has nothing more to do by itself, and what that changed is painted.

Textual's own pilot takes an app for idle once it used little processor time for a fiftieth of a second. On a loaded
machine an app that nobody lets run looks like that too, with a key halfway on its way from the app to the table and
back. Here the event loop is asked instead: nothing waits to be run by it. So a key that was pressed has been handled,
every message that this caused as well, every coroutine has gone on until it waits for a thread, a program, a timer or
a person, and keys that were held for a dialog have been given to it. What comes from threads and timers is not waited
for: each driver has a condition for that.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from typing import TYPE_CHECKING, Any

from textual import events
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key

from selftest_tui.app.held_keys import HoldingApp

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

PATIENCE = 150.0
_LOOK_AGAIN = 0.005
_MOST_ROUNDS = 500
"""Rounds of the event loop, far more than messages have hops: where there is still something to run, it is timers
that come faster than the machine can follow, as those of a recording that plays."""


async def quiet(app: App[Any]) -> None:
    """Wait until nothing in the app can go on by itself, and what is shown has been laid out and painted."""
    # The loop tells nobody what it has still to run, but its queue is one since it was written.
    ready = vars(asyncio.get_running_loop())["_ready"]
    deadline = time.monotonic() + PATIENCE
    rounds = 0
    while app.is_running:
        assert time.monotonic() < deadline, f"never quiet: {list(ready)[:5]}"
        await asyncio.sleep(0)
        rounds += 1
        if ready and rounds < _MOST_ROUNDS:
            continue
        if not app.is_running or not app.screen_stack:
            return
        await app.animator.wait_until_complete()
        if isinstance(app, HoldingApp) and app.holds_keys:
            await asyncio.sleep(_LOOK_AGAIN)
            rounds = 0
            continue
        if ready and rounds < _MOST_ROUNDS:
            continue
        app.screen._on_timer_update()
        if not ready or rounds >= _MOST_ROUNDS:
            return


async def press(app: App[Any], *keys: str) -> None:
    """Press keys one after the other, each once all that the one before it did is done."""
    for key in keys:
        app.post_message(key_event(key))
        await quiet(app)


def key_event(key: str) -> events.Key:
    """The event of a key, by its name or its character."""
    name = key if len(key) > 1 or key.isalnum() else _character_to_key(key)
    try:
        character: str | None = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(name, name)))
    except KeyError:
        character = name if len(name) == 1 else None
    return events.Key(name, character)


async def until(app: App[Any], condition: Callable[[], object], tell: Callable[[], str]) -> None:
    """Wait for a condition, and then until all is quiet. `tell`: what to say where it never comes."""
    deadline = time.monotonic() + PATIENCE
    await quiet(app)
    while not condition():
        assert time.monotonic() < deadline, f"never came: {tell()}"
        assert app._exception is None, f"the app broke, waiting for: {tell()}"
        await asyncio.sleep(_LOOK_AGAIN)
        await quiet(app)
    await quiet(app)
