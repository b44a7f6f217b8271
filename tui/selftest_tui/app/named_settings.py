"""Checks of the settings that the user names, for `doctor`: keys, aliases of commands, and views.

The settings themselves only know their names; what they stand for is known by the key tables and the fleet's filter.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from selftest_core.doctor.doctor import Check
from selftest_tui.app.key_tables import TABLES
from selftest_tui.app.rebinding import chosen_keys
from selftest_tui.fleet.arrangement import FILTER
from selftest_tui.fleet.keys import FLEET
from selftest_tui.shared.commands import named, plain
from selftest_tui.shared.filter import problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.config import Config


def check_named_settings(config: Config) -> tuple[Check, ...]:
    """Check each kind of which the settings have any. A fault is a warning: the rest of the settings works."""
    checks = []
    if config.keys:
        checks.append(_check("keys", config.keys, chosen_keys(config).wrong, "Until then no key is changed."))
    if config.aliases:
        checks.append(_check("aliases", config.aliases, tuple(_wrong_aliases(config)), "The others work."))
    if config.views:
        checks.append(_check("views", config.views, tuple(_wrong_views(config)), "The others work."))
    return tuple(checks)


def _check(name: str, settings: Mapping[str, object], wrong: Sequence[str], otherwise: str) -> Check:
    if wrong:
        return Check(name, "warning", " ".join(wrong), f"Correct these lines of the settings. {otherwise}")
    return Check(name, "ok", f"{len(settings)} of your own")


def _wrong_aliases(config: Config) -> Iterator[str]:
    """Describe each alias that stands for nothing, or that never gets its turn."""
    tables = [table for table in TABLES if any(key.action == "command" for key in table.rows)]
    commands = [{key.action for key in named(table.rows)} for table in tables]
    commands[tables.index(FLEET)] |= {f"view {name}" for name in config.views}
    everything = set().union(*commands)
    for alias, target in config.aliases.items():
        where = f"{config.sources[f'aliases.{alias}']}: aliases.{alias}"
        name = plain(target)
        if name not in everything:
            near = difflib.get_close_matches(name, sorted(everything), n=1)
            hint = f"Did you mean {near[0]}?" if near else "docs/keys.md names the actions."
            yield f"{where}: there is no command {target}. {hint}"
        elif all(alias in screen for screen in commands if name in screen):
            yield f"{where}: {alias} is a command itself, and stays that."


def _wrong_views(config: Config) -> Iterator[str]:
    """Describe each view that is no filter of the fleet."""
    for name, query in config.views.items():
        if problem := problem_of(query, FILTER):
            yield f"{config.sources[f'views.{name}']}: views.{name}: {problem}."
