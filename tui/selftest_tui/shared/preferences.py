"""The user's choices on screens, kept for the next start: theme, splits, columns, hidden agents.

One JSON file in the state folder, replaced whole. A change is merged into what the file has by then, so that two
screens in two terminals do not undo each other. A damaged file means the defaults, and a notice; a file that cannot be
written means that the choice lasts until the program ends, and a notice.

    {"theme": {"name": "nord", "instead_of": ""}, "hides_old_agents": true,
     "splits": {"fleet": 0.62}, "columns": {"fleet": {"host": "never", "branch": "always"}}}
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core import paths
from selftest_core.frozen import dataclass
from selftest_tui.shared.widgets.columns import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "screen-preferences.json"
MOST_BYTES = 1_000_000
LEAST_SPLIT, MOST_SPLIT = 0.2, 0.8
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Preferences:
    """All choices. `splits`: the table's share of the width, by screen. `columns`: by table and column.

    `theme` was chosen while the setting `theme` was `theme_instead_of`: another setting is a newer choice.
    """

    theme: str = ""
    theme_instead_of: str = ""
    hides_old_agents: bool = True
    splits: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    columns: Mapping[str, Mapping[str, Choice]] = field(default_factory=lambda: _NOTHING)

    def theme_over(self, setting: str) -> str:
        """The theme to show, given the setting."""
        return self.theme if self.theme and self.theme_instead_of == setting else setting


class PreferenceStore:
    """The preferences of one environment. `notice`: why they could not be read or kept; empty if all is well."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = paths.state_folder(environ) / FILE_NAME
        self.notice = ""
        self.now, self.notice = _read(self._path)

    def choose_theme(self, name: str, instead_of: str) -> None:
        """Keep a theme that was chosen while the setting was `instead_of`."""
        self._change(theme=name, theme_instead_of=instead_of)

    def hide_old_agents(self, hides: bool) -> None:
        """Keep whether agents of old runs are hidden."""
        self._change(hides_old_agents=hides)

    def split(self, screen: str, share: float) -> None:
        """Keep the table's share of a screen's width."""
        self._change(splits={**self.now.splits, screen: share})

    def choose_columns(self, table: str, choices: Mapping[str, Choice]) -> None:
        """Keep the columns of a table."""
        self._change(columns={**self.now.columns, table: dict(choices)})

    def _change(self, **changes: Any) -> None:
        self.now = replace(self.now, **changes)
        kept, _ = _read(self._path)  # another process may have changed something else
        try:
            _write(self._path, replace(kept, **changes))
        except OSError as error:
            self.notice = f"This choice lasts until you quit: {self._path} cannot be written ({error.strerror})."


def _read(path: Path) -> tuple[Preferences, str]:
    """The preferences in a file, and a notice if it is damaged."""
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(MOST_BYTES))
        return _from_json(data), ""
    except FileNotFoundError:
        return Preferences(), ""
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return Preferences(), f"{path} cannot be read, so the defaults apply: {error}"


def _from_json(data: Any) -> Preferences:
    """Raises ValueError, TypeError or AttributeError if a value has another shape; unknown names are ignored."""
    theme = data.get("theme", {})
    splits = {str(name): float(share) for name, share in data.get("splits", {}).items()}
    if not all(LEAST_SPLIT <= share <= MOST_SPLIT for share in splits.values()):
        raise ValueError(f"a split is not between {LEAST_SPLIT} and {MOST_SPLIT}")
    columns = {
        str(table): {str(name): Choice(choice) for name, choice in choices.items()}
        for table, choices in data.get("columns", {}).items()
    }
    hides = data.get("hides_old_agents", True)
    if not isinstance(hides, bool):
        raise TypeError("hides_old_agents is neither true nor false")
    return Preferences(str(theme.get("name", "")), str(theme.get("instead_of", "")), hides, splits, columns)


def _write(path: Path, chosen: Preferences) -> None:
    data = {
        "theme": {"name": chosen.theme, "instead_of": chosen.theme_instead_of},
        "hides_old_agents": chosen.hides_old_agents,
        "splits": dict(chosen.splits),
        "columns": {table: dict(choices) for table, choices in chosen.columns.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{FILE_NAME}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
