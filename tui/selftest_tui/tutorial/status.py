"""The status line of the tutorial screen: the file, the counts of cited and open blocks, and the last run's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.draft.proposals import ProposalKind
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of
from selftest_tui.tutorial.lines import CITED, NOTE, PROPOSED, STALE, UNCITED

if TYPE_CHECKING:
    from selftest_tui.shared.widgets.pieces import Piece
    from selftest_tui.tutorial.view import TutorialView

MOST_RESULTS = 6


class TutorialStatus(PiecesWidget):
    """Status line for a TutorialView."""

    DEFAULT_CSS = """
    TutorialStatus { height: 1; background: $panel; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._place = ""
        self._view: TutorialView | None = None

    def show(self, view: TutorialView | None, place: str) -> None:
        """Show another view; `place` is the file, as the user would name it here."""
        self._view, self._place = view, place
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return one line."""
        return [line_of(self._view, self._place, width)]


def line_of(view: TutorialView | None, place: str, width: int) -> list[Piece]:
    """Return the line in at most `width` cells: shorten the labels first, then drop the run's id, then the place."""
    head: list[Piece] = [(" tutorial ", "bold")]
    name: list[Piece] = [(f" {present.clean(place)}  ", "")]
    if view is None:
        return [*head, *name]
    for in_words, with_run, with_place in ((True, True, True), (False, True, True), (False, False, True)):
        pieces = [*head, *(name if with_place else ()), *_counts(view, in_words), *_results(view, in_words, with_run)]
        if width_of(pieces) <= width:
            break
    else:
        pieces = [*head, *_counts(view, False), *_results(view, False, False)]
    return pieces


def _counts(view: TutorialView, in_words: bool) -> list[Piece]:
    cited = len(view.blocks) - view.uncited
    counts: tuple[tuple[str, int, str, str], ...] = (
        (CITED, cited, "cited", "$text-success"),
        (UNCITED, view.uncited, "uncited", "bold $text-error"),
        (STALE, view.stale, "stale", "bold $text-warning"),
        (NOTE, view.warnings, "warnings", "$text-warning"),
    )
    if view.draft is not None and view.draft.open:
        counts = ((PROPOSED[ProposalKind.NEW], view.draft.open, "proposed", "bold $text-warning"), *counts)
    pieces: list[Piece] = [] if in_words else [("blocks ", "$foreground-muted")]
    for sign, count, word, style in counts:
        text = f"{sign}{count:>3}" + (f" {word}" if in_words else "")
        pieces += [(text, style if count else "$foreground-disabled"), ("  " if in_words else " ", "")]
    return pieces


def _results(view: TutorialView, in_words: bool, with_run: bool) -> list[Piece]:
    if not view.run:
        return [("   no run yet", "$foreground-muted")] if in_words else []
    pieces: list[Piece] = [(f"   run {present.clean(view.run)}  " if with_run else "  ", "$foreground-muted")]
    by_word: dict[str, tuple[int, str]] = {}
    for how, count in view.results().items():
        sign = run_words.SYMBOLS[how]
        known = by_word.get(sign, (0, run_words.STYLES[how]))
        by_word[sign] = (known[0] + count, known[1])
    for sign, (count, style) in list(by_word.items())[:MOST_RESULTS]:
        pieces += [(f"{sign} {count}" if in_words else f"{sign}{count}", style), ("  " if in_words else " ", "")]
    return pieces
