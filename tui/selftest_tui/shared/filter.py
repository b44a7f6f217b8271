"""The filter language of all tables: words, `!` for the inverse, states, labels, fields, regular expressions. Pure.

All terms must hold. A word is searched as it is; only a word that nothing contains is compared fuzzily, so exact hits
never come with similar ones, and `logn redirct` still finds something. A term that cannot be understood (an invalid
regular expression, an unknown state) has no effect, and `problem_of` says so while it is typed.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SYNTAX: tuple[tuple[str, str], ...] = (
    ("two words", "lines that contain both words, in any order; a word that nothing contains is compared fuzzily"),
    ("!word", "the inverse: lines without it; works before every other form too"),
    ("is:stopped", "lines in this state (`state:` means the same); its beginning is enough"),
    ("field:text", "lines with this text in one field; the fields of this table are below"),
    ("label:key=text", "agents with this label; `label:key` for any value"),
    ("/regex/", "lines that match a regular expression, which contains no space; `re:regex` and `field:/regex/` too"),
    ('"two words"', "exactly this text, spaces and `!` included"),
)
"""Every form of a term and its meaning, for the help."""

LIKE_ENOUGH = 75.0
SHORTEST_FUZZY = 3
_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_STATE_FIELDS = ("is", "state")
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Language:
    """The states and fields that the filter of one table knows."""

    states: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    has_labels: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """The searchable facts of one line, harmless and in lower case. `text`: its parts, one a line, its name first."""

    text: str
    states: frozenset[str] = frozenset()
    fields: Mapping[str, tuple[str, ...]] = _NONE
    labels: Mapping[str, str] = _NO_LABELS


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a query. `word`: what may be compared fuzzily. `problem`: why the term has no effect."""

    holds: Callable[[Facts], bool]
    is_inverse: bool = False
    word: str = ""
    problem: str = ""


def facts(
    parts: Iterable[str],
    states: Iterable[str] = (),
    fields: Mapping[str, Iterable[str]] = _NONE,
    labels: Mapping[str, str] = _NO_LABELS,
) -> Facts:
    """Facts from untrusted text. Blanks in states become hyphens: `needs you` is `is:needs-you`."""
    return Facts(
        "\n".join(map(_plain, parts)),
        frozenset(map(hyphenated, states)),
        {name: tuple(map(_plain, values)) for name, values in fields.items()},
        {_plain(name): _plain(value) for name, value in labels.items()},
    )


def hyphenated(state: str) -> str:
    """A state as it is typed: `needs you` as `needs-you`."""
    return state.casefold().replace(" ", "-").replace("_", "-")


def _plain(text: str) -> str:
    return present.clean(text).casefold()


@lru_cache(maxsize=64)
def parse(query: str, language: Language) -> tuple[Term, ...]:
    """The terms of a query; none of a blank one."""
    terms = (_term(token, language) for token in _TOKEN.findall(present.clean(query)))
    return tuple(term for term in terms if term is not None)


def problem_of(query: str, language: Language) -> str:
    """Return the reason why a part of the query has no effect; empty without one."""
    return next((term.problem for term in parse(query, language) if term.problem), "")


def help_lines(language: Language) -> tuple[tuple[str, str], ...]:
    """The help of one table's filter: every form, then its states and fields."""
    forms = tuple(line for line in SYNTAX if language.has_labels or not line[0].startswith("label:"))
    return (*forms, ("states", ", ".join(language.states)), ("fields", ", ".join(language.fields)))


class Finder[K, T]:
    """Finds lines by queries. The facts of a line are kept as long as the line is the same object."""

    def __init__(self, facts_of: Callable[[T], Facts], language: Language) -> None:
        self._facts_of = facts_of
        self._language = language
        self._known: dict[K, tuple[T, Facts]] = {}

    def find(self, items: Iterable[tuple[K, T]], query: str) -> frozenset[K] | None:
        """Return the keys of the matching lines; None for a query without terms, which matches all."""
        terms = [term for term in parse(query, self._language) if not term.problem]
        if not terms:
            return None
        found = self._facts(items)
        for term in terms:
            hits = {key: one for key, one in found.items() if term.holds(one) is not term.is_inverse}
            if not hits and term.word and not term.is_inverse:
                hits = _similar(term.word, found)
            found = hits
        return frozenset(found)

    def _facts(self, items: Iterable[tuple[K, T]]) -> dict[K, Facts]:
        before, after = self._known, dict[K, tuple[T, Facts]]()
        for key, item in items:
            known = before.get(key)
            after[key] = known if known is not None and known[0] is item else (item, self._facts_of(item))
        self._known = after
        return {key: one for key, (_, one) in after.items()}


def _term(token: str, language: Language) -> Term | None:
    is_inverse = token.startswith("!")
    body = token.removeprefix("!")
    text = body.replace('"', "").casefold()
    if not text:
        return None
    if body.startswith('"'):
        return Term(lambda one: text in one.text, is_inverse)
    name, colon, value = body.replace('"', "").partition(":")
    name = name.casefold()
    if colon and name == "re":
        return _regex(value, is_inverse, lambda one: (one.text,))
    if colon and name in _STATE_FIELDS:
        return _state(name, hyphenated(value), is_inverse, language)
    if colon and name == "label" and language.has_labels:
        return _label(value.casefold(), is_inverse)
    if colon and name in language.fields:
        return _field(name, value, is_inverse)
    if _is_regex(body):
        return _regex(body[1:-1], is_inverse, lambda one: (one.text,))
    state = hyphenated(text)
    word = "" if state in language.states else text
    return Term(lambda one: text in one.text or state in one.states, is_inverse, word)


def _is_regex(text: str) -> bool:
    return len(text) > 2 and text.startswith("/") and text.endswith("/")


def _regex(pattern: str, is_inverse: bool, texts_of: Callable[[Facts], tuple[str, ...]]) -> Term | None:
    if not pattern:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of patterns that Python may read otherwise one day
            compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        return Term(lambda one: True, problem=f"{pattern} is no regular expression: {error}")
    return Term(lambda one: any(compiled.search(text) for text in texts_of(one)), is_inverse)


def _state(name: str, value: str, is_inverse: bool, language: Language) -> Term | None:
    if not value:
        return None
    if value in language.states:
        return Term(lambda one: value in one.states, is_inverse)
    if not any(state.startswith(value) for state in language.states):
        return Term(lambda one: True, problem=f"{name}:{value} is no state here: {', '.join(language.states)}")
    return Term(lambda one: any(state.startswith(value) for state in one.states), is_inverse)


def _label(text: str, is_inverse: bool) -> Term | None:
    key, equals, value = text.partition("=")
    if not key:
        return None
    if not equals:
        return Term(lambda one: any(name.startswith(key) for name in one.labels), is_inverse)
    return Term(lambda one: value in one.labels.get(key, "\0"), is_inverse)


def _field(name: str, value: str, is_inverse: bool) -> Term | None:
    if not value:
        return None
    if _is_regex(value):
        return _regex(value[1:-1], is_inverse, lambda one: one.fields.get(name, ()))
    text = value.casefold()
    return Term(lambda one: any(text in part for part in one.fields.get(name, ())), is_inverse)


def _similar[K](word: str, found: Mapping[K, Facts]) -> dict[K, Facts]:
    if len(word) < SHORTEST_FUZZY:
        return {}
    from rapidfuzz import fuzz, process  # 20 ms that only a misspelt word costs

    texts = {key: one.text for key, one in found.items()}
    hits = process.extract(word, texts, scorer=fuzz.partial_ratio, score_cutoff=LIKE_ENOUGH, limit=None)
    keys = [key for _, _, key in hits]
    keys = keys or [key for key, text in texts.items() if _in_sequence(word, text.partition("\n")[0])]
    return {key: found[key] for key in keys}


def _in_sequence(word: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in word)
