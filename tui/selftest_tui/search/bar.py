"""Header of the search screen: what is searched, how many hits there are, and the progress of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.search.feed import SearchNews
from selftest_tui.shared import present
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of

if TYPE_CHECKING:
    from selftest_tui.shared.widgets.pieces import Piece

_MUTED = "$foreground-muted"


class SearchBar(PiecesWidget):
    """Shows the state of a search."""

    DEFAULT_CSS = """
    SearchBar { height: 1; background: $panel; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._news = SearchNews()

    def show(self, news: SearchNews) -> None:
        """Show a newer state."""
        self._news = news
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return one line: the progress stands at its right end."""
        news = self._news
        pieces: list[Piece] = [(" search ", "bold")]
        if news.text:
            room = max(8, width // 3)
            pieces += [
                (f" {present.fit(news.text, room).rstrip()}", "bold $text-primary"),
                (f"  {hits_words(news)}", ""),
            ]
        says = f"{progress_words(news)} "
        pieces.append((" " * max(2, width - width_of(pieces) - len(says)), ""))
        return [[*pieces, (says, _MUTED)]]


def hits_words(news: SearchNews) -> str:
    """Return the number of hits in words."""
    if news.problem:
        return ""
    runs = len({hit.run for hit in news.hits})
    first = "first " if news.is_cut else ""
    return f"{first}{len(news.hits):,} hit{'' if len(news.hits) == 1 else 's'} in {present.plural(runs, 'run')}"


def progress_words(news: SearchNews) -> str:
    """Return the progress of scanning or indexing in words; empty when both are done."""
    if news.error is not None:
        return ""
    if news.share < 1.0:
        return f"searching {news.share:.0%}"
    if news.index is None:
        return "indexing …"
    if news.index.is_done:
        return ""
    if news.index.is_waiting:
        return "another process is indexing …"
    if not news.index.total:
        return "indexing …"
    return f"indexing {news.index.share:.0%}, {news.index.rate / 1e6:.1f} MB/s"
