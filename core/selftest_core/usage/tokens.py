"""Tokens and dollars of agents: values, and pure functions that count them.

Each figure has one of three labels:

- **metered**: the agent's own program counted the tokens, and the price of each model is known (or the program reported
  the dollars). Without `usd` the tokens are metered and the price is not known.
- **imputed**: the tokens are counted, but the dollars are not the ones to pay: the price is one of a similar model, or
  some models have no known price and are missing from the sum, or the agent works under a subscription (reported by
  imbue-mngr-usage), which has no price for single answers.
- **estimated**: nothing was counted; the dollars are the setting `usd_per_agent`.

A sum has the weakest label of its parts. An answer of a model counts once, by its message id: streaming repeats it over
several lines, and the last line has the final counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.conversation.common_transcript import Tokens, count, text_of
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from selftest_core.conversation.common_transcript import Step


_MOST_USD = 1e9
_LONGEST_ID = 200


class Label(StrEnum):
    """Reliability of a figure, from the best to the weakest; the module's docstring defines them."""

    METERED = "metered"
    IMPUTED = "imputed"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of an agent, or of several. The token counts do not overlap; `usd` None: no price is known.

    `model`: the one with the most output, "" if it is not known.
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    usd: float | None = None
    label: Label = Label.METERED
    model: str = ""

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input + self.cached + self.cache_write + self.output


class Answer(NamedTuple):
    """One answer of a model, by its last line."""

    model: str
    tokens: Tokens
    at: float | None = None


class Priced(NamedTuple):
    """Dollars. `is_borrowed`: by the price of a similar model. `is_own`: by a price in the settings."""

    usd: float
    is_borrowed: bool = False
    is_own: bool = False


class ProgramTotals(NamedTuple):
    """Totals of a session by the agent's own program: tokens by model, and dollars."""

    models: Mapping[str, Tokens]
    usd: float


class ReportedCost(NamedTuple):
    """Dollars until `at`, which imbue-mngr-usage recorded from the agent's program while it works.

    Every process counts from 0: `before` is the sum of those that ended, `last` is the current one. `is_subscription`:
    single answers have no price.
    """

    before: float
    last: float
    at: float
    is_subscription: bool = False


type PriceOf = Callable[[str, Tokens], Priced | None]
"""Function that prices tokens of a model; None if its price is not known."""


def with_answers(answers: Mapping[str, Answer], steps: Iterable[Step]) -> dict[str, Answer]:
    """Add the answers of more steps. The result does not depend on repetitions, or on how steps are split."""
    counted = dict(answers)
    for step in steps:
        if step.source == "agent" and step.tokens is not None and not step.is_error:
            counted[(step.message_id or step.id)[:_LONGEST_ID]] = Answer(step.model, step.tokens, step.at)
    return counted


def usage_of(
    answers: Mapping[str, Answer],
    price_of: PriceOf,
    program: ProgramTotals | None = None,
    reported: ReportedCost | None = None,
) -> Usage | None:
    """Count and price the usage of one agent; None for no usage.

    `program` is used where it covers all of `answers`: it has answers that are in no transcript (summaries, titles),
    but it was written when the program last ended, so there may be newer answers. For the same reason the dollars of
    `reported` are used where they are newer than every answer.
    """
    is_subscription = reported is not None and reported.is_subscription
    if program is not None and _covers(program, answers):
        return _usage_of_program(program.models, program.usd, price_of, is_subscription=is_subscription)
    if not answers:
        return None
    by_model = _by_model(answers)
    if reported is not None and all(answer.at is not None and answer.at <= reported.at for answer in answers.values()):
        usd = reported.before + reported.last
        return _usage_of_program(by_model, usd, price_of, is_subscription=is_subscription)
    usd, is_whole = 0.0, True
    is_any_known = False
    for answer in answers.values():
        # Each alone: the price of some models depends on the size of the request.
        priced = price_of(answer.model, answer.tokens)
        if priced is not None:
            usd += priced.usd
            is_any_known = True
        is_whole = is_whole and priced is not None and not priced.is_borrowed
    return _usage(by_model, usd if is_any_known else None, is_whole and not is_subscription)


def total_of(usages: Iterable[Usage]) -> Usage | None:
    """Add several usages; None for none. `usd` is the sum of the known ones; the label is the weakest."""
    found = list(usages)
    if not found:
        return None
    dollars = [each.usd for each in found if each.usd is not None]
    used = [each for each in found if each.tokens or each.usd is not None]
    is_partial = bool(dollars) and any(each.usd is None for each in used)
    labels = {each.label for each in used} | ({Label.IMPUTED} if is_partial else set())
    written: dict[str, int] = {}
    for each in found:
        written[each.model] = written.get(each.model, 0) + each.output
    return Usage(
        input=sum(each.input for each in found),
        cached=sum(each.cached for each in found),
        cache_write=sum(each.cache_write for each in found),
        output=sum(each.output for each in found),
        usd=round(sum(dollars), 9) if dollars else None,
        label=next((label for label in reversed(Label) if label in labels), Label.METERED),
        model=max(sorted(name for name in written if name), key=lambda name: written[name], default=""),
    )


def _usage_of_program(models: Mapping[str, Tokens], usd: float, price_of: PriceOf, *, is_subscription: bool) -> Usage:
    priced = [price_of(model, tokens) for model, tokens in models.items()]
    # The program prices unknown models like others: its dollars are reliable where we know the models too.
    is_whole = not any(each is None or each.is_borrowed for each in priced)
    if any(each is not None and each.is_own for each in priced):
        usd = sum(each.usd for each in priced if each is not None)
    return _usage(models, usd, is_whole and not is_subscription)


def _usage(by_model: Mapping[str, Tokens], usd: float | None, is_whole: bool) -> Usage:
    return Usage(
        input=sum(tokens.input for tokens in by_model.values()),
        cached=sum(tokens.cached for tokens in by_model.values()),
        cache_write=sum(tokens.cache_write for tokens in by_model.values()),
        output=sum(tokens.output for tokens in by_model.values()),
        usd=None if usd is None else round(usd, 9),  # sums of floats differ in their last digits
        label=Label.METERED if is_whole or usd is None else Label.IMPUTED,
        model=max(sorted(by_model), key=lambda model: by_model[model].output, default=""),
    )


def _by_model(answers: Mapping[str, Answer]) -> dict[str, Tokens]:
    counted: dict[str, list[int]] = {}
    for model, tokens, _ in answers.values():
        sums = counted.setdefault(model, [0, 0, 0, 0])
        for place, number in enumerate((tokens.input, tokens.cached, tokens.cache_write, tokens.output)):
            sums[place] += number
    return {model: Tokens(*sums) for model, sums in counted.items()}


def _covers(program: ProgramTotals, answers: Mapping[str, Answer]) -> bool:
    total = _usage(program.models, None, True)
    seen = _usage(_by_model(answers), None, True)
    return (
        total.tokens > 0
        and total.input >= seen.input
        and total.cached >= seen.cached
        and total.cache_write >= seen.cache_write
        and total.output >= seen.output
    )


def as_fields(usage: Usage) -> dict[str, object]:
    """Convert a usage to JSON values, for a journal."""
    return {
        "input": usage.input,
        "cached": usage.cached,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "usd": usage.usd,
        "label": usage.label.value,
        "model": usage.model,
    }


def from_fields(value: object) -> Usage | None:
    """Convert JSON values of `as_fields` to a usage; None for anything else."""
    if not isinstance(value, dict):
        return None
    fields: dict[str, object] = value
    usd, label = fields.get("usd"), fields.get("label")
    is_sound = isinstance(usd, int | float) and 0 <= usd <= _MOST_USD
    return Usage(
        input=count(value.get("input")),
        cached=count(value.get("cached")),
        cache_write=count(value.get("cache_write")),
        output=count(value.get("output")),
        usd=float(usd) if is_sound and isinstance(usd, int | float) else None,
        label=Label(label) if isinstance(label, str) and label in tuple(Label) else Label.IMPUTED,
        model=text_of(value.get("model")),
    )
