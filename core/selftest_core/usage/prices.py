"""Prices of models: the user's own (setting `prices`), then those of the package `genai-prices`.

Nothing is downloaded: prices are as old as the installed package. Its import takes 0.4 s and 30 MB, so it is imported
with the first model that needs it, in the thread that asks. An unknown model has no price. One with another spelling
(of Bedrock, Vertex or a router) has the price of the plain one, and is marked (`is_borrowed`). A price table that
cannot be used costs the prices alone: tokens count, and `problem` says why they have no dollars.
"""

from __future__ import annotations

import functools
import math
import re
import threading
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.conversation.common_transcript import Tokens
from selftest_core.usage.tokens import Priced

if TYPE_CHECKING:
    from collections.abc import Iterable

_MILLION = 1_000_000
_MOST_CACHED = 20_000
_KNOWN_MODEL = "claude-opus-4-5"
"""A model that any version of the package knows."""
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
    """Price of one model in USD per million tokens."""

    model: str
    input: float
    cached: float
    cache_write: float
    output: float


def prices_of(words: Iterable[str]) -> tuple[ModelPrice, ...]:
    """Parse the setting `prices`: checked words, `model=input,cached,cache write,output`."""
    parts = [word.rpartition("=") for word in words]
    return tuple(ModelPrice(model, *map(float, four.split(","))) for model, _, four in parts)


class BrokenPricesError(Exception):
    """The price table of the package `genai-prices` cannot be used."""


class Prices:
    """Prices of tokens, with a cache. For several threads.

    `problem`: why the price table of the package could not be used, empty as long as it can be.
    """

    def __init__(self, own: Iterable[ModelPrice] = ()) -> None:
        self.problem = ""
        self._own = {price.model: price for price in own}
        self._cache: dict[tuple[str, Tokens], Priced | None] = {}
        self._gate = threading.Lock()

    def of(self, model: str, tokens: Tokens) -> Priced | None:
        """Return the price of one answer's tokens; None if the model's price is not known."""
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
            if known not in self._cache:
                if len(self._cache) >= _MOST_CACHED:
                    self._cache.clear()
                try:
                    self._cache[known] = _from_library(model, tokens)
                except BrokenPricesError as error:
                    self.problem = str(error)
                    self._cache[known] = None
            return self._cache[known]


def price_table_problem() -> str:
    """Say why the price table of the package cannot be used; empty if it can be."""
    prices = Prices()
    priced = prices.of(_KNOWN_MODEL, Tokens(_MILLION, 0, 0, 0))
    return prices.problem or ("" if priced is not None else f"it has no price of {_KNOWN_MODEL}")


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
    """Return the plain spelling of a model's name; "" if there is no other."""
    found = _OTHER_SPELLING.fullmatch(model)
    return "" if found is None or found["plain"] == model else found["plain"]


def _calculated(model: str, tokens: Tokens) -> float | None:
    """Ask the package. Raises BrokenPricesError where it fails in a way that is not about the model."""
    try:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price
    except Exception as error:  # damaged files of a package fail in any way
        raise _broken(error) from error
    counted = Counted(
        input_tokens=tokens.input + tokens.cached + tokens.cache_write,
        cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.cache_write,
        output_tokens=tokens.output,
    )
    try:
        usd = float(calc_price(counted, model).total_price)
    except (LookupError, ValueError, ArithmeticError):
        return None
    except Exception as error:
        raise _broken(error) from error
    if not 0 <= usd < math.inf:
        raise BrokenPricesError(f"its price of {model[:80]} is {usd:g}")
    return usd


def _broken(error: Exception) -> BrokenPricesError:
    return BrokenPricesError(" ".join(f"{type(error).__name__}: {error}".split())[:300])
