"""Tokens and dollars: the folds that count them, and the prices."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.conversation.common_transcript import Step, Tokens
from selftest_core.usage.prices import ModelPrice, Prices, price_table_problem
from selftest_core.usage.tokens import Answer, Label, Priced, ProgramTotals, Usage, total_of, usage_of, with_answers

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS = st.builds(Tokens, *[st.integers(0, 10**6)] * 4)
NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.builds(
        Step,
        id=st.uuids().map(str),
        source=st.sampled_from(["agent", "user"]),
        model=st.sampled_from(["known", "unknown"]),
        message_id=NAMES,
        tokens=st.none() | TOKENS,
        is_error=st.booleans(),
    ),
    max_size=20,
)


def one_dollar_a_million(model: str, tokens: Tokens) -> Priced | None:
    whole = tokens.input + tokens.cached + tokens.cache_write + tokens.output
    return Priced(whole / 1e6) if model == "known" else None


def answers(*counted: tuple[str, Tokens]) -> dict[str, Answer]:
    return {str(number): Answer(*each) for number, each in enumerate(counted)}


@given(STEPS, st.data())
def test_any_pieces_of_the_same_steps_count_the_same(steps: list[Step], data: st.DataObject) -> None:
    whole = with_answers({}, steps)
    cut = data.draw(st.integers(0, len(steps)))
    again = data.draw(st.integers(0, cut))
    # The second piece repeats the end of the first one, as a reader that began anew would.
    pieces: Mapping[str, Answer] = with_answers(with_answers({}, steps[:cut]), steps[again:])
    assert pieces == whole
    last = {step.message_id: step for step in steps if step.source == "agent" and step.tokens and not step.is_error}
    assert {key: answer.tokens for key, answer in whole.items()} == {key: step.tokens for key, step in last.items()}


@given(STEPS)
def test_the_sum_is_that_of_the_last_line_of_each_answer(steps: list[Step]) -> None:
    counted = with_answers({}, steps)
    usage = usage_of(counted, one_dollar_a_million)
    if not counted:
        assert usage is None
        return
    assert usage is not None
    assert usage.output == sum(answer.tokens.output for answer in counted.values())
    known = [answer.tokens for answer in counted.values() if answer.model == "known"]
    if known:
        assert usage.usd == pytest.approx(
            sum(Usage(t.input, t.cached, t.cache_write, t.output).tokens for t in known) / 1e6
        )
    else:
        assert usage.usd is None
    is_mixed = bool(known) and len(known) < len(counted)
    assert usage.label is (Label.IMPUTED if is_mixed else Label.METERED)


def test_an_unknown_model_has_tokens_and_no_dollars() -> None:
    usage = usage_of(answers(("unknown", Tokens(1, 2, 3, 4))), one_dollar_a_million)
    assert usage == Usage(1, 2, 3, 4, usd=None, label=Label.METERED, model="unknown")


def test_the_program_wins_where_it_covers_all_that_was_answered() -> None:
    seen = answers(("known", Tokens(10, 0, 0, 5)))
    # It has counted a title that stands in no transcript.
    program = ProgramTotals({"known": Tokens(12, 0, 0, 6)}, 0.5)
    assert usage_of(seen, one_dollar_a_million, program) == Usage(12, 0, 0, 6, 0.5, Label.METERED, "known")
    # It ended, went on, and answered more.
    more = seen | {"more": Answer("known", Tokens(10, 0, 0, 5))}
    assert usage_of(more, one_dollar_a_million, program) == Usage(20, 0, 0, 10, 30 / 1e6, Label.METERED, "known")
    # It has a price for every model, if need be that of another.
    strange = ProgramTotals({"unknown": Tokens(12, 0, 0, 6)}, 0.5)
    assert usage_of(seen, one_dollar_a_million, strange) == Usage(12, 0, 0, 6, 0.5, Label.IMPUTED, "unknown")
    assert usage_of({}, one_dollar_a_million, ProgramTotals({}, 0.0)) is None


def test_prices_of_the_person_overrule_the_program_too() -> None:
    prices = Prices([ModelPrice("known", 100, 0, 0, 200)])
    program = ProgramTotals({"known": Tokens(10_000, 0, 0, 1_000)}, 0.5)
    usage = usage_of({}, prices.of, program)
    assert usage is not None
    assert usage.usd == pytest.approx(1.2)
    assert usage.label is Label.METERED


def test_a_sum_is_as_sound_as_its_weakest_part() -> None:
    metered = Usage(1, 2, 3, 4, 0.5, Label.METERED, "m")
    assert total_of([]) is None
    assert total_of([metered, metered]) == Usage(2, 4, 6, 8, 1.0, Label.METERED, "m")
    estimated = Usage(usd=0.25, label=Label.ESTIMATED)
    assert total_of([metered, estimated]) == Usage(1, 2, 3, 4, 0.75, Label.ESTIMATED, "m")
    unpriced = Usage(10, 0, 0, 20, None, Label.METERED, "n")
    assert total_of([metered, unpriced]) == Usage(11, 2, 3, 24, 0.5, Label.IMPUTED, "n")
    assert total_of([unpriced, unpriced]) == Usage(20, 0, 0, 40, None, Label.METERED, "n")


def test_prices_come_from_the_kept_library() -> None:
    # The figures that Claude Code 2.1.330 itself wrote for these tokens.
    for tokens, usd in ((Tokens(100, 60_000, 2_500, 202), 0.02894), (Tokens(120, 72_000, 3_000, 112), 0.03212)):
        priced = Prices().of("claude-opus-5-5", tokens)
        assert priced is not None
        assert priced.usd == pytest.approx(usd)
        assert not priced.is_borrowed


@pytest.mark.parametrize("model", ["", "no-such-model", "../x", "claude-opus-99", "\x1b[31m", "x" * 10_000])
def test_what_is_no_model_has_no_price(model: str) -> None:
    assert Prices().of(model, Tokens(1, 1, 1, 1)) is None


@pytest.mark.parametrize(
    "spelling", ["anthropic/claude-opus-5-5", "us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5[1m]"]
)
def test_another_spelling_borrows_the_price_and_says_so(spelling: str) -> None:
    plain = Prices().of("claude-opus-5-5", Tokens(1000, 0, 0, 1000))
    assert plain is not None
    assert Prices().of(spelling, Tokens(1000, 0, 0, 1000)) == Priced(plain.usd, is_borrowed=True)
    usage = usage_of(answers((spelling, Tokens(1000, 0, 0, 1000))), Prices().of)
    assert usage is not None
    assert usage.label is Label.IMPUTED


def test_the_largest_counts_are_priced() -> None:
    most = Tokens(10**12, 10**12, 10**12, 10**12)
    priced = Prices().of("claude-opus-5-5", most)
    assert priced is not None
    assert 0 < priced.usd < 1e9


def of_a_broken_package(*_: object) -> object:
    raise RuntimeError("providers: 7 validation errors\nfor models")


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        (None, "ModuleNotFoundError: import of genai_prices halted; None in sys.modules"),
        (SimpleNamespace(), "ImportError: cannot import name 'Usage' from '<unknown module name>' (unknown location)"),
        (SimpleNamespace(Usage=dict, calc_price=of_a_broken_package), "RuntimeError: providers: 7 validation errors"),
        (
            SimpleNamespace(Usage=dict, calc_price=lambda *_: SimpleNamespace(total_price=float("nan"))),
            "its price of claude-opus-5-5 is nan",
        ),
        (
            SimpleNamespace(Usage=dict, calc_price=lambda *_: SimpleNamespace(total_price=-2.0)),
            "its price of claude-opus-5-5 is -2",
        ),
    ],
)
def test_a_broken_price_table_costs_the_dollars_alone_and_says_why(
    package: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", package)
    prices = Prices([ModelPrice("own", 1, 0, 0, 2)])
    used = usage_of(answers(("claude-opus-5-5", Tokens(10, 0, 0, 5))), prices.of)
    assert used == Usage(10, 0, 0, 5, None, Label.METERED, "claude-opus-5-5")
    assert prices.problem.startswith(problem)
    assert "\n" not in prices.problem
    priced = prices.of("own", Tokens(1_000_000, 0, 0, 0))
    assert priced is not None
    assert priced.usd == 1.0
    assert price_table_problem() != ""


def test_a_sound_price_table_is_no_problem() -> None:
    assert price_table_problem() == ""


def test_prices_are_not_loaded_before_they_are_needed() -> None:
    import subprocess

    code = "import sys, selftest_core.usage.meter, selftest_core.usage.prices; print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
