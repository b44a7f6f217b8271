"""The filter: which agents and sessions a few typed words mean.

Every word must be found. A word is first looked for as it is, anywhere in the name, test, branch, host or labels;
only when that finds nothing at all is it taken for a slip of the fingers and compared fuzzily. So exact words never
drag their likenesses along, and `logn redirct` still finds something. What was made searchable of a row is kept as
long as the row stays the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.shared import present

if TYPE_CHECKING:
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Row
    from selftest_tui.fleet.arrangement import LineKey

LIKE_ENOUGH = 75.0
SHORTEST_FUZZY = 3


class Finder:
    """Answers queries over one fleet after the other; remembers only the texts of the fleet asked last."""

    def __init__(self) -> None:
        self._texts: dict[LineKey, tuple[Row | TmuxSession, str]] = {}

    def find(self, view: FleetView, query: str) -> frozenset[LineKey] | None:
        """The keys that `query` means; None when it is blank and so means all."""
        words = present.clean(query).casefold().split()
        if not words:
            return None
        texts = self._searchable(view)
        for word in words:
            found = {key: text for key, text in texts.items() if word in text}
            texts = found or self._like(word, texts)
        return frozenset(texts)

    def _searchable(self, view: FleetView) -> dict[LineKey, str]:
        before = self._texts
        after: dict[LineKey, tuple[Row | TmuxSession, str]] = {}
        for row in view.rows:
            known = before.get(row.key)
            after[row.key] = known if known is not None and known[0] is row else (row, _text_of(row))
        for session in view.sessions:
            known = before.get(session.ref)
            same = known is not None and known[0] is session
            after[session.ref] = known if known is not None and same else (session, _text_of_session(session))
        self._texts = after
        return {key: text for key, (_, text) in after.items()}

    def _like(self, word: str, texts: dict[LineKey, str]) -> dict[LineKey, str]:
        if len(word) < SHORTEST_FUZZY:
            return {}
        from rapidfuzz import fuzz, process  # 20 ms that only a slip of the fingers costs

        hits = process.extract(word, texts, scorer=fuzz.partial_ratio, score_cutoff=LIKE_ENOUGH, limit=None)
        close = {key: text for text, _, key in hits}
        return close or {key: text for key, text in texts.items() if _in_sequence(word, text.partition("\n")[0])}


def _text_of(row: Row) -> str:
    agent = row.agent
    parts = [agent.name, agent.test or "", agent.branch or "", agent.host.name, agent.host.provider, agent.type]
    parts += [f"{name}={value}" for name, value in agent.labels.items() if name != "selftest_test"]
    return "\n".join(present.clean(part) for part in parts).casefold()


def _text_of_session(session: TmuxSession) -> str:
    return "\n".join(map(present.clean, (session.ref.name, session.title, session.command))).casefold()


def _in_sequence(word: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in word)
