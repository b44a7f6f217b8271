"""The filter language: every form of a term, its inverse, and what cannot be understood."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_tui.fleet.arrangement import FILTER as FLEET
from selftest_tui.review.lines import FILTER as REVIEW
from selftest_tui.run.lines import FILTER as RUN
from selftest_tui.shared.filter import SYNTAX, Facts, Finder, Language, facts, help_lines, parse, problem_of
from selftest_tui.tutorial.view import FILTER as TUTORIAL

LANGUAGE = Language(states=("working", "stopped", "needs-you"), fields=("test", "host"), has_labels=True)
LINES = {
    "cart": facts(
        ("st-cart-tax", "test_cart.py::test_tax"), ("working",),
        {"test": ("test_cart.py::test_tax",), "host": ("local",)}, {"team": "Web"},
    ),
    "login": facts(
        ("st-login", "test_login.py::test_redirect"), ("stopped",),
        {"test": ("test_login.py::test_redirect",), "host": ("modal-1",)}, {"team": "auth", "tier": "1"},
    ),
    "odd": facts(("!st odd", "/srv/work: stopped early"), ("needs you",), {"host": ("modal-2",)}),
}  # fmt: skip


def found(query: str) -> set[str]:
    finder: Finder[str, Facts] = Finder(lambda one: one, LANGUAGE)
    keys = finder.find(LINES.items(), query)
    return set(LINES if keys is None else keys)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", {"cart", "login", "odd"}),
        ("TAX cart", {"cart"}),
        ("cart login", set()),
        ("test_cart.py::test_tax", {"cart"}),
        ("!cart", {"login", "odd"}),
        ("!cart !login", {"odd"}),
        ("is:working", {"cart"}),
        ("state:STOPPED", {"login"}),
        ("is:stop", {"login"}),
        ("is:needs_you", {"odd"}),
        ("!is:working", {"login", "odd"}),
        ("stopped", {"login", "odd"}),
        ("label:team=web", {"cart"}),
        ("label:team", {"cart", "login"}),
        ("!label:team", {"odd"}),
        ("label:tier=1 label:team=auth", {"login"}),
        ("host:modal", {"login", "odd"}),
        ("!host:modal", {"cart"}),
        ("host:/-[12]$/", {"login", "odd"}),
        ("re:^st-.*tax$", {"cart"}),
        ("/^ST-(cart|login)/", {"cart", "login"}),
        ("!/^st-/", {"odd"}),
        ("/srv/work", {"odd"}),
        ('"!st odd"', {"odd"}),
        ('!"st odd"', {"cart", "login"}),
        ('test:"test_login.py"', {"login"}),
        ("logn", {"login"}),
        ("!logn", {"cart", "login", "odd"}),
        ("zzzzqq", set()),
        ("!", {"cart", "login", "odd"}),
    ],
)
def test_each_form_of_a_term(query: str, keys: set[str]) -> None:
    assert found(query) == keys


@pytest.mark.parametrize("query", ["!", "is:", "!state:", "host:", "label:", "re:", "!re:", '""', "is: host: cart !"])
def test_a_term_that_is_not_finished_has_no_effect(query: str) -> None:
    assert problem_of(query, LANGUAGE) == ""
    assert found(query) == ({"cart"} if "cart" in query else set(LINES))


@pytest.mark.parametrize(
    ("query", "says"), [("re:(", "( is no regular expression"), ("!/[/", "[ is no"), ("is:zzz", "is:zzz is no state")]
)
def test_a_term_that_cannot_be_understood_says_so_and_has_no_effect(query: str, says: str) -> None:
    assert says in problem_of(query, LANGUAGE)
    assert found(query) == set(LINES)
    assert found(f"cart {query}") == {"cart"}
    assert found(f"!cart {query}") == {"login", "odd"}


def test_a_line_that_is_the_same_object_is_read_once() -> None:
    read: list[str] = []

    def facts_of(line: str) -> Facts:
        read.append(line)
        return facts((line,))

    finder: Finder[int, str] = Finder(facts_of, LANGUAGE)
    first, second = "a line", "b line"
    for _ in range(3):
        assert finder.find(enumerate((first, second)), "b") == frozenset({1})
    assert read == [first, second]


@given(st.text())
def test_any_text_is_a_query(query: str) -> None:
    assert found(query) <= set(LINES)
    assert isinstance(problem_of(query, LANGUAGE), str)
    for term in parse(query, LANGUAGE):
        assert not (term.problem and term.word)


@given(st.sampled_from(["cart", "is:working", "host:modal", "label:team=web", "/t.x/", "re:^st", '"st odd"']))
def test_a_term_and_its_inverse_part_the_lines(term: str) -> None:
    assert found(term) | found(f"!{term}") == set(LINES)
    assert not found(term) & found(f"!{term}")


@given(st.lists(st.sampled_from(["cart", "!login", "is:stopped", "host:modal", "/st/"]), max_size=4))
def test_terms_hold_together_in_any_order(terms: list[str]) -> None:
    every = set(LINES).intersection(*(found(term) for term in terms))
    assert found(" ".join(terms)) == found(" ".join(reversed(terms)))
    if every:
        assert found(" ".join(terms)) == every


@given(st.sampled_from(sorted(LINES)), st.data())
def test_a_quoted_part_of_a_line_finds_it(key: str, data: st.DataObject) -> None:
    text = LINES[key].text.partition("\n")[0]
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))]
    if part.strip() == part:
        assert key in found(f'"{part}"')


@pytest.mark.parametrize("language", [FLEET, RUN, REVIEW, TUTORIAL])
def test_states_and_fields_of_every_screen_can_be_typed(language: Language) -> None:
    for state in language.states:
        assert re.fullmatch(r"[a-z-]+", state)
        assert not problem_of(f"is:{state}", language)
    assert len(set(language.states)) == len(language.states)
    assert all(re.fullmatch(r"[a-z]+", name) for name in language.fields)
    assert not {"is", "state", "label", "re"} & set(language.fields)
    lines = dict(help_lines(language))
    assert lines["states"] == ", ".join(language.states)
    assert ("label:key=text" in lines) is language.has_labels
    assert set(lines) <= {form for form, _ in SYNTAX} | {"states", "fields"}
