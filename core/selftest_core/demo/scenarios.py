"""The cast of the demo: who the agents are, and what each does, as steps that `actor.py` plays. Data only.

A story is a list of steps, each a list: the verb first, then its arguments (the verbs are methods of
`actor.Actor`). The edits are real repairs of the sample's real defects. The first of the cast fails by design, so
that a demo of any size has something that failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RUN = "7f"
"""The run that the agents' labels name."""

type Step = list[object]


@dataclass(frozen=True, slots=True)
class Role:
    """One agent of the cast: its name, the test it owns, its story, and how it ends when nobody interferes."""

    name: str
    test: str
    story: tuple[Step, ...]
    ends_with: int = 0


def _look(path: str, test: str) -> tuple[Step, ...]:
    return (["think", 2.5], ["read", path], ["test", [test]], ["think", 2.0])


_CARD_TEST = "tests/test_pay.py::test_card_is_checked"
_TAX_TEST = "tests/test_cart.py::test_tax_rounds_half_up"
_REDIRECT_TEST = "tests/test_login.py::test_redirect_keeps_query"
_LIMIT_TEST = "tests/test_login.py::test_five_failures_lock"
_REFUND_TEST = "tests/test_pay.py::test_refund_never_exceeds_payment"
_EMPTY_TEST = "tests/test_cart.py::test_empty_cart_has_a_mean_price"
_MERGE_TEST = "tests/test_cart.py::test_merge_adds_counts"

_PLODDING: tuple[Step, ...] = (
    ["say", "Green. Let me see that nothing else leans on the old behaviour."],
    ["read", "shop/cart.py"],
    ["think", 4.0],
    ["test", ["tests/test_cart.py", "tests/test_pay.py"]],
    ["say", "Still green with the neighbours. I look for a case that the test does not cover yet."],
    ["think", 6.0],
    ["read", "tests/test_cart.py"],
    ["think", 5.0],
)

CAST: tuple[Role, ...] = (
    Role(
        f"st-{RUN}-pay-card",
        _CARD_TEST,
        (
            ["say", "I take the card check. The cited block says that a mistyped card is refused."],
            *_look("shop/pay.py", _CARD_TEST),
            ["say", "Doubled digits above nine must be reduced. I ask the sandbox for a card to try it on."],
            ["think", 3.0],
            ["crash", "ConnectionRefusedError: [Errno 111] Connection refused: sandbox.pay.example:443"],
        ),
        ends_with=3,
    ),
    Role(
        f"st-{RUN}-login-redirect",
        _REDIRECT_TEST,
        (
            ["say", "The redirect drops the query. Looking at who calls it."],
            *_look("shop/login.py", _REDIRECT_TEST),
            ["ask", "Should I change the redirect for guests too?", ["Yes", "No, only members"]],
            [
                "edit",
                "shop/login.py",
                '    return ("302 Found", url)',
                '    return ("302 Found", f"{url}?{query}" if query else url)',
            ],
            ["test", [_REDIRECT_TEST]],
            ["commit", "[IMPROVE] Keep the query when login redirects"],
            ["say", "Done: the query survives, and the test is green."],
        ),
    ),
    Role(
        f"st-{RUN}-cart-tax",
        _TAX_TEST,
        (
            ["say", "257 is expected, 256 comes out: the half cent is cut off instead of rounded."],
            *_look("shop/cart.py", _TAX_TEST),
            [
                "edit",
                "shop/cart.py",
                "        return self.total() * TAX_PERCENT // 100",
                "        return (self.total() * TAX_PERCENT + 50) // 100",
            ],
            ["test", [_TAX_TEST, "tests/test_cart.py::test_total"]],
            ["commit", "[FIX] Round tax half up"],
            ["say", "Done: one line, two tests green."],
        ),
    ),
    Role(
        f"st-{RUN}-cart-empty",
        _EMPTY_TEST,
        (
            ["say", "An empty cart divides by zero. What should its mean price be? The test says 0."],
            *_look("shop/cart.py", _EMPTY_TEST),
            [
                "edit",
                "shop/cart.py",
                "        return self.total() // sum(count for _, count in self.lines.values())",
                "        return self.total() // max(1, sum(count for _, count in self.lines.values()))",
            ],
            ["test", [_EMPTY_TEST]],
            ["again", 40, list(_PLODDING)],
            ["commit", "[FIX] Give an empty cart a mean price"],
        ),
    ),
    Role(
        f"st-{RUN}-login-limit",
        _LIMIT_TEST,
        (
            ["say", "Five failures should lock, six do. An off-by-one, or meant so? Reading."],
            *_look("shop/login.py", _LIMIT_TEST),
            ["think", 4.0],
            ["permit", "git log -S ATTEMPTS --oneline -- shop/login.py"],
            [
                "edit",
                "shop/login.py",
                "        return self.failed.get(name, 0) > ATTEMPTS",
                "        return self.failed.get(name, 0) >= ATTEMPTS",
            ],
            ["test", ["tests/test_login.py"]],
            ["commit", "[FIX] Lock after five failures, not six"],
            ["say", "Done: the door locks when the tutorial says so."],
        ),
    ),
    Role(
        f"st-{RUN}-pay-refund",
        _REFUND_TEST,
        (
            ["say", "A refund can exceed the payment. That is money lost, so I start with the test."],
            *_look("shop/pay.py", _REFUND_TEST),
            ["think", 6.0],
            [
                "edit",
                "shop/pay.py",
                "        self.refunded += cents",
                "        self.refunded = min(self.cents, self.refunded + cents)",
            ],
            ["test", ["tests/test_pay.py"]],
            ["say", "The refund is right. test_card_is_checked is somebody else's: I leave it alone."],
            ["think", 5.0],
            ["commit", "[FIX] Never refund more than was paid"],
            ["say", "Done."],
        ),
    ),
    Role(
        f"st-{RUN}-cart-merge",
        _MERGE_TEST,
        (
            ["say", "Merging two carts loses counts: update() replaces the line."],
            *_look("shop/cart.py", _MERGE_TEST),
            [
                "edit",
                "shop/cart.py",
                "        self.lines.update(other.lines)",
                "        for item, (price, count) in other.lines.items():\n"
                "            self.lines[item] = (price, count + self.lines.get(item, (price, 0))[1])",
            ],
            ["test", [_MERGE_TEST]],
            ["again", 40, list(_PLODDING)],
            ["commit", "[FIX] Add counts when carts merge"],
        ),
    ),
    Role(
        f"st-{RUN}-docs-tour",
        "tests/test_cart.py::test_total",
        (
            ["say", "The tutorial's first block and its test agree. Nothing to change."],
            ["read", "tutorial.sh"],
            ["test", ["tests/test_cart.py::test_total"]],
            ["wait", "No change needed. Tell me if I should look at something else."],
            ["say", "Done: nothing was changed."],
        ),
    ),
)


def cast(agents: int) -> tuple[Role, ...]:
    """The first `agents` of the cast; beyond its size the stories repeat under numbered names."""
    return tuple(_endless(CAST, agents))


def _endless(roles: Sequence[Role], agents: int) -> Iterator[Role]:
    for number in range(agents):
        turn, role = divmod(number, len(roles))
        yield roles[role] if turn == 0 else replace(roles[role], name=f"{roles[role].name}-{turn + 1}")
