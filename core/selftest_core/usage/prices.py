"""The prices of models: the person's own (`prices`), then those of `genai-prices`, whose data is in its package.

Nothing is fetched, ever: prices are as old as the installed package. Its import takes 0.4 s and 30 MB, so it is loaded
with the first model that needs it, in the thread that asks. A model that nobody knows has no price. One that is known
by another spelling (of Bedrock, Vertex or a router) borrows the price of the plain one, and says so.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.usage.tokens import Priced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.conversation.common_transcript import Tokens

_MILLION = 1_000_000
_MOST_REMEMBERED = 20_000
_OTHER_SPELLING = re.compile(
    r"""(?:[\w-]+/)*            # a router's or a cloud's path: anthropic/claude-…, publishers/anthropic/models/claude-…
        (?:[a-z-]+\.)*          # Bedrock: us.anthropic.claude-…
        (?P<plain>[\w.@-]+?)
        (?:-v\d+(?::\d+)?)?     # Bedrock: -v1:0
        (?:\[\w+\]|:\w+)?       # Claude Code: [1m]; OpenRouter: :free
    """,
    re.VERBOSE,
)


class ModelPrice(NamedTuple):
    """One model's price in USD per million tokens."""

    model: str
    input: float
    cached: float
    cache_write: float
    output: float


def prices_of(words: Iterable[str]) -> tuple[ModelPrice, ...]:
    """Read the setting `prices`: checked words, `model=input,cached,cache write,output`."""
    parted = [word.rpartition("=") for word in words]
    return tuple(ModelPrice(model, *map(float, four.split(","))) for model, _, four in parted)


class Prices:
    """Prices tokens. Safe to use from several threads."""

    def __init__(self, own: Iterable[ModelPrice] = ()) -> None:
        self._own = {price.model: price for price in own}
        self._remembered: dict[tuple[str, Tokens], Priced | None] = {}
        self._gate = threading.Lock()

    def of(self, model: str, tokens: Tokens) -> Priced | None:
        """Price the tokens of one answer of a model; None where the price of the model is not known."""
        own = self._own.get(model)
        if own is not None:
            return Priced(
                (
                    tokens.input * own.input
                    + tokens.cached * own.cached
                    + tokens.cache_write * own.cache_write
                    + tokens.output * own.output
                )
                / _MILLION,
                is_own=True,
            )
        with self._gate:
            known = (model, tokens)
            if known not in self._remembered:
                if len(self._remembered) >= _MOST_REMEMBERED:
                    self._remembered.clear()
                self._remembered[known] = _from_library(model, tokens)
            return self._remembered[known]


def _from_library(model: str, tokens: Tokens) -> Priced | None:
    if not model:
        return None
    usd = _calculated(model, tokens)
    if usd is not None:
        return Priced(usd)
    plain = _plain_name(model)
    usd = _calculated(plain, tokens) if plain else None
    return None if usd is None else Priced(usd, is_borrowed=True)


@functools.lru_cache(1024)
def _plain_name(model: str) -> str:
    """The plain spelling of a model's name; empty where there is no other."""
    found = _OTHER_SPELLING.fullmatch(model)
    return "" if found is None or found["plain"] == model else found["plain"]


def _calculated(model: str, tokens: Tokens) -> float | None:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    counted = Counted(
        input_tokens=tokens.input + tokens.cached + tokens.cache_write,
        cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.cache_write,
        output_tokens=tokens.output,
    )
    try:
        return float(calc_price(counted, model).total_price)
    except (LookupError, ValueError, ArithmeticError):
        return None
