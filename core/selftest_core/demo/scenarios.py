"""The cast of the demo: which agent owns which test, and what it does, as steps that `actor.py` plays. Data only.

A story is a list of steps, each a list: the verb first, then its arguments (the verbs are methods of
`actor.Actor`). The edits are real repairs of the sample's real defects, so what pytest says afterwards is real too.
The first of the cast crashes by design, so that a demo of any size has something that failed; among the fourteen
every kind of outcome occurs that an agent can bring about, three make the same change, and two a conflicting one.

`Role.ends` is how a run ends this test when nobody interferes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.demo.sample import FILES
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

type Step = list[object]


@dataclass(frozen=True, slots=True)
class Role:
    """One agent of the cast: the test it owns, its story, how that ends in a run, and its program's exit status.

    `exit_status` None: it does not end by itself.
    """

    test: str
    story: tuple[Step, ...]
    ends: str = "succeeded"
    exit_status: int | None = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its commits, in order."""
        return tuple(str(step[1]) for step in self.story if step[0] == "commit")


def _look(path: str) -> tuple[Step, ...]:
    return (["think", 2.5], ["read", path], ["test"], ["think", 2.0])


def _importance(level: str, reason: str) -> dict[str, object]:
    return {"importance": {"level": level, "reason": reason}}


_ROUND_UP: tuple[Step, ...] = (
    [
        "edit",
        "shop/cart.py",
        "        return self.total() * TAX_PERCENT // 100",
        "        return (self.total() * TAX_PERCENT + 50) // 100",
    ],
)
_ROUNDED: Step = ["commit", "FIX_IMPL", "Round tax half up", "The half cent was cut off; the tutorial says half up."]

CAST: tuple[Role, ...] = (
    Role(
        "tests/test_pay.py::test_card_is_checked",
        (
            ["say", "I take the card check. The cited block says that a mistyped card is refused."],
            *_look("shop/pay.py"),
            ["say", "Doubled digits above nine must be reduced. I ask the sandbox for a card to try it on."],
            ["think", 3.0],
            ["crash", "ConnectionRefusedError: [Errno 111] Connection refused: sandbox.pay.example:443"],
        ),
        ends="crash",
        exit_status=3,
    ),
    Role(
        "tests/test_login.py::test_redirect_keeps_query",
        (
            ["say", "The redirect drops the query. Looking at who calls it."],
            *_look("shop/login.py"),
            [
                "edit",
                "shop/login.py",
                '    return ("302", url)',
                '    return ("302", f"{url}?{query}" if query else url)',
            ],
            ["test"],
            ["commit", "FIX_IMPL", "Keep the query when login redirects", "Guests lost what they had asked for."],
            ["say", "Nothing proves that a redirect without a query stays as it is. One line more."],
            ["think", 4.0],
            [
                "edit",
                "tests/test_login.py",
                """== (0, "302 /cart?item=tea\\n")\n""",
                """== (0, "302 /cart?item=tea\\n")\n"""
                """    assert acme("./acme login ann --password 'open sesame' --to /cart") == (0, "302 /cart\\n")\n""",
            ],
            ["test"],
            ["commit", "IMPROVE_TEST", "Prove a redirect without a query", "A stray `?` would have gone unseen."],
            ["report", "Login keeps the query. One fix, one line of test.", _importance("high", "Links break.")],
        ),
    ),
    Role(
        "tests/test_cart.py::test_tax_rounds_half_up",
        (
            ["say", "2.57 is expected, 2.56 comes out: the half cent is cut off instead of rounded."],
            *_look("shop/cart.py"),
            *_ROUND_UP,
            ["test"],
            _ROUNDED,
            ["report", "Tax is rounded half up, as the block says.", _importance("high", "Wrong amounts.")],
        ),
    ),
    Role(
        "tests/test_till.py::test_till_opens_again",
        (
            ["say", "The till. I run its test first."],
            ["read", "shop/till.py"],
            ["test"],
            ["say", "It came back? Then the lock is gone by itself."],
        ),
        ends="timeout",
        exit_status=None,
    ),
    Role(
        "tests/test_receipt.py::test_receipt_adds_tax",
        (
            ["say", "The receipt is one cent short of tax. That is the rounding in the cart."],
            *_look("shop/cart.py"),
            *_ROUND_UP,
            ["test"],
            _ROUNDED,
            ["say", "The sum line still differs: it must have to do with the tax."],
            ["edit", "shop/cart.py", "{money(self.total())}", "{money(self.total() - self.tax())}"],
            ["test"],
            ["commit", "FIX_IMPL", "Let the sum follow the tax", "The receipt left the tax out of its sum."],
            ["say", "It is another sum now. Good enough: green."],
            [
                "report",
                "Fixed: the receipt is right, and **all tests pass**.",
                {"tests_passing_after": True, "test_runs": [{"run_name": "after", "description_markdown": "passed"}]},
            ],
        ),
    ),
    Role(
        "tests/test_login.py::test_five_failures_lock",
        (
            ["say", "Five failures should lock, six do. An off-by-one, or meant so? Reading."],
            *_look("shop/login.py"),
            ["think", 4.0],
            ["permit", "git log -S ATTEMPTS --oneline -- shop/login.py"],
            [
                "edit",
                "shop/login.py",
                "        return self.failed.get(name, 0) > ATTEMPTS",
                "        return self.failed.get(name, 0) >= ATTEMPTS",
            ],
            ["test"],
            ["commit", "FIX_IMPL", "Lock after five failures, not six", "An off-by-one: `>` instead of `>=`."],
            ["report", "The door locks when the tutorial says so.", _importance("critical", "A door stays open.")],
        ),
    ),
    Role(
        "tests/test_login.py::test_the_last_attempt_is_announced",
        (
            ["say", "After the fifth failure it says “0 attempts left” instead of “locked”."],
            *_look("shop/login.py"),
            ["say", "Two counts of the same thing. I let `is_locked` ask `left`, so that they cannot differ again."],
            [
                "edit",
                "shop/login.py",
                "        return self.failed.get(name, 0) > ATTEMPTS",
                "        return self.left(name) == 0",
            ],
            ["test"],
            ["think", 3.0],
            ["commit", "FIX_IMPL", "Lock when no attempt is left", "One count decides, and it is the announced one."],
            ["report", "Locked is what has no attempts left.", _importance("critical", "A door stays open.")],
        ),
    ),
    Role(
        "tests/test_cart.py::test_mean_price_counts_every_thing",
        (
            ["say", "5.25 is the mean of two prices. The block says that every single thing counts: 5.00."],
            *_look("shop/cart.py"),
            ["say", "So the program is right, and the test is wrong."],
            ["edit", "tests/test_cart.py", '(0, "5.25\\n")', '(0, "5.00\\n")'],
            ["test"],
            ["commit", "FIX_TEST", "Expect the mean of things, not of prices", "The block counts every thing."],
            [
                "report",
                "The test expected the wrong mean; the program was right.",
                {
                    "escalations": [
                        {
                            "kind": "UNCAUGHT_BUG",
                            "title": "`mean_price` of an empty cart divides by zero",
                            "detail_markdown": "Seen while reading; no test covers it.",
                            "locations": [{"path": "shop/cart.py", "line": 36}],
                        }
                    ]
                },
            ],
        ),
    ),
    Role(
        "tests/test_cart.py::test_total",
        (
            ["say", "The tutorial's first block and its test agree."],
            *_look("tutorial.sh"),
            ["report", "Nothing to change: the test proves its block, and is green.", {}],
        ),
        ends="unchanged",
    ),
    Role(
        "tests/test_cart.py::test_many_things_are_taxed_once",
        (
            ["say", "4.28 expected, 4.27 comes out. Rounded down, where the block says half up."],
            *_look("shop/cart.py"),
            *_ROUND_UP,
            ["test"],
            _ROUNDED,
            ["say", "A lot of one thing is tested, a mix of things is not."],
            ["think", 3.0],
            [
                "edit",
                "tests/test_cart.py",
                '    assert acme("./acme cart tax") == (0, "4.28\\n")\n',
                '    assert acme("./acme cart tax") == (0, "4.28\\n")\n'
                '    acme("./acme cart add pot")\n'
                '    assert acme("./acme cart tax") == (0, "5.42\\n")\n',
            ],
            ["test"],
            ["commit", "IMPROVE_TEST", "Tax a mix of things too", "Taxing line by line would have gone unseen."],
            ["report", "Tax is rounded once, for all things together.", _importance("high", "Wrong amounts.")],
        ),
    ),
    Role(
        "tests/test_login.py::test_the_right_word_opens",
        (
            ["say", "The right word opens, the wrong one does not. Does the test see both?"],
            *_look("tests/test_login.py"),
            ["say", "It does. Each flag makes a difference."],
            ["report", "Nothing to change.", {}],
        ),
        ends="unchanged",
    ),
    Role(
        "tests/test_pay.py::test_refund_never_exceeds_payment",
        (
            ["say", "A refund can exceed the payment. That is money lost, so I start with the test."],
            *_look("shop/pay.py"),
            ["say", "The block does not say whether the second refund is cut or refused, and the test takes both."],
            [
                "ask",
                "What should a refund do that is more than what is left?",
                ["Pay back what is left", "Refuse it"],
                [
                    [
                        [
                            "edit",
                            "shop/pay.py",
                            "        self.refunded += cents\n",
                            "        cents = min(cents, self.cents - self.refunded)\n        self.refunded += cents\n",
                        ],
                        ["test"],
                        ["commit", "FIX_IMPL", "Pay back what is left at most", "As a person decided."],
                        ["report", "A refund is cut to what is left, as was decided.", {}],
                    ],
                    [
                        [
                            "edit",
                            "shop/pay.py",
                            "        self.refunded += cents\n",
                            "        if cents > self.cents - self.refunded:\n"
                            '            raise SystemExit("more than is left")\n'
                            "        self.refunded += cents\n",
                        ],
                        ["test"],
                        ["commit", "FIX_IMPL", "Refuse a refund of more than is left", "As a person decided."],
                        ["report", "A refund of more than is left is refused, as was decided.", {}],
                    ],
                    [
                        [
                            "report",
                            "Blocked: somebody must say whether a refund that is too large is cut or refused.",
                            {
                                "tests_passing_after": None,
                                "escalations": [
                                    {
                                        "kind": "BLOCKER",
                                        "title": "Is a refund that is too large cut, or refused?",
                                        "detail_markdown": "The tutorial's block can be read either way.",
                                        "locations": [{"path": "shop/pay.py", "line": 9}],
                                    }
                                ],
                            },
                        ]
                    ],
                ],
            ],
        ),
        ends="blocked",
    ),
    Role(
        "tests/test_help.py::test_help_names_every_command",
        (
            ["say", "The help. A quick one."],
            *_look("shop/main.py"),
            ["babble", '{"errored": false, "changes": {"FIX_IMPL": {"status": "SUCCEEDED",\n** and then it'],
        ),
        ends="unreadable",
    ),
    Role(
        "tests/test_cart.py::test_merge_adds_counts",
        (
            ["say", "Merging two carts loses counts: update() replaces the line."],
            *_look("shop/cart.py"),
            [
                "edit",
                "shop/cart.py",
                "        self.lines.update(other.lines)",
                "        for item, (price, count) in other.lines.items():\n"
                "            self.lines[item] = (price, count)",
            ],
            ["test"],
            ["say", "Still red, and I do not see why. I take it back rather than leave half a change."],
            ["undo", "FIX_IMPL", "Merging line by line did not help."],
            ["report", "Not mended: counts are lost when carts merge, and what I tried did not help.", {}],
        ),
        ends="red",
    ),
)


def cast(agents: int, first: tuple[str, ...] = ()) -> tuple[Role, ...]:
    """The first `agents` of the cast; beyond its size the stories repeat on copies of their tests.

    `first`: names of tests whose roles come before the others.
    """
    names = [role.test.partition("::")[2] for role in CAST]
    chosen = [CAST[names.index(name)] for name in first]
    order = [*chosen, *(role for role in CAST if role not in chosen)]
    return tuple(_copied(order[number % len(order)], number // len(order)) for number in range(agents))


def files(agents: int) -> Mapping[str, str]:
    """The sample repository for so many agents: path → text. Its tests are there once for each time they are owned."""
    laid = dict(FILES)
    for turn in range(1, (agents - 1) // len(CAST) + 1):
        for path, text in FILES.items():
            if path.startswith("tests/test_"):
                laid[_copy_name(path, turn)] = text
    return laid


def _copied(role: Role, turn: int) -> Role:
    if turn == 0:
        return role
    path = role.test.partition("::")[0]
    copy = _copy_name(path, turn)
    story = tuple(json.loads(json.dumps(role.story).replace(path, copy)))
    return replace(role, test=role.test.replace(path, copy), story=story)


def _copy_name(path: str, turn: int) -> str:
    return f"{path.removesuffix('.py')}_{turn + 1}.py"
