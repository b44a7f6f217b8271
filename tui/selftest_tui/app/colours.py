"""The colours of the application: the theme that is remembered, and terminals with fewer colours than it wants.

Inside tmux 24-bit colours are always right, whatever the variables say: tmux reduces them itself for its terminal. In
other terminals of 256 colours each shade becomes the nearest of them here, greys included. Rich would take dark shades
such as a header's for navy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color, ColorType
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

from selftest_tui.app.held_keys import HoldingApp
from selftest_tui.shared.preferences import PreferenceStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.color import Color as TextualColor

_FIRST = 16
"""Numbers below are the terminal's own sixteen colours, of any shade."""
_LEVELS = (0, 95, 135, 175, 215, 255)
_PALETTE = [(red, green, blue) for red in _LEVELS for green in _LEVELS for blue in _LEVELS]
_PALETTE += [(8 + 10 * step,) * 3 for step in range(24)]


class ColouredApp(HoldingApp):
    """An app with a theme that is remembered. `theme_setting`: the setting, which applies if none was chosen."""

    def __init__(self, environ: Mapping[str, str], theme_setting: str) -> None:
        super().__init__()
        self.preferences = PreferenceStore(environ)
        self._theme_setting = theme_setting
        self._is_themed = False
        self._nearest = NearestOf256()
        if environ.get("TMUX") and self.console.color_system in ("standard", "256"):
            self.console = Console(
                color_system="truecolor", file=self.console.file, highlight=False, emoji=False, legacy_windows=False,
                force_terminal=True, safe_box=False, soft_wrap=False,
            )  # fmt: skip

    def apply_theme(self) -> None:
        """Show the remembered theme, else that of the setting; from now on choices are remembered."""
        wanted = self.preferences.now.theme_over(self._theme_setting)
        if wanted in self.available_themes:
            self.theme = wanted
        self._is_themed = True

    def watch_theme(self, before: str, after: str) -> None:
        """Remember a theme that the user chose."""
        if self._is_themed and after != before:
            self.preferences.choose_theme(after, self._theme_setting)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Reduce colours last."""
        filters = super().get_line_filters()
        if self.console.color_system == "256" and not self.is_headless:
            return [*filters, self._nearest]
        return filters


class NearestOf256(LineFilter):
    """Replace 24-bit colours by the nearest of the 240 fixed ones of a terminal with 256."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        """Replace the colours of one line."""
        return [
            Segment(text, reduced(style) if style is not None else None, control) for text, style, control in segments
        ]


@lru_cache(maxsize=4_096)
def reduced(style: Style) -> Style:
    """The style with colours of the palette of 256."""
    return style + Style(color=_nearest(style.color), bgcolor=_nearest(style.bgcolor))


def _nearest(colour: Color | None) -> Color | None:
    if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
        return colour
    red, green, blue = colour.triplet

    def distance(number: int) -> int:
        """Return the weighted squared distance: an approximation of the perceived difference of two colours."""
        other = _PALETTE[number]
        mean = (red + other[0]) // 2
        return (
            (512 + mean) * (red - other[0]) ** 2 // 256
            + 4 * (green - other[1]) ** 2
            + (767 - mean) * (blue - other[2]) ** 2 // 256
        )

    return Color.from_ansi(_FIRST + min(range(len(_PALETTE)), key=distance))
