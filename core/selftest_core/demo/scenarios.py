"""The roles of the demo's agents: the test that each works on, and its story as steps that `actor.py` plays. Data only.

A step is a list: the verb (a method of `actor.Actor`), then its arguments. The edits repair real defects of the sample,
so the results of pytest are real. The first role crashes on purpose, so that every demo has a failure. The fourteen
roles cover every end that an agent can cause; two make the same change and a third the same in other words, two make
conflicting ones, one claims what does not hold, and one breaks the test of another.
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
    """One agent: its test, its story, its end in an undisturbed run, and its program's exit status.

    `exit_status` None: the program does not exit by itself. `answer`: what a person answers where nobody watches; the
    agent commits once more then, and succeeds.
    """

    test: str
    story: tuple[Step, ...]
    ends: str = "succeeded"
    exit_status: int | None = 0
    answer: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its commits, in order."""
        return tuple(str(step[1]) for step in self.story if step[0] == "commit")


def _say(text: str) -> Step:
    return ["say", text]


def _think(seconds: float) -> Step:
    return ["think", seconds]


def _inspect(path: str) -> tuple[Step, ...]:
    """Read a file and run the test."""
    return (_think(2.5), ["read", path], _TEST, _think(2.0))


def _edit(path: str, old: str, new: str) -> Step:
    return ["edit", path, old, new]


def _commit(subject: str, reason: str, kind: str = "FIX_IMPL") -> Step:
    return ["commit", kind, subject, reason]


def _report(summary: str, claims: Mapping[str, object] | None = None, importance: tuple[str, str] = ("", "")) -> Step:
    """End with an outcome. `claims`: fields that replace what was observed. `importance`: a level and its reason."""
    level, reason = importance
    rated = {"importance": {"level": level, "reason": reason}} if level else {}
    return ["report", summary, {**(claims or {}), **rated}]


def _escalation(kind: str, title: str, detail: str, path: str, line: int) -> dict[str, object]:
    place = {"path": path, "line": line}
    return {"escalations": [{"kind": kind, "title": title, "detail_markdown": detail, "locations": [place]}]}


_TEST: Step = ["test"]
_REFUNDED = "        self.refunded += cents\n"
_LOCKED = "        return self.failed.get(name, 0) > ATTEMPTS"
_TAX = "        return self.total() * TAX_PERCENT // 100"
_MONEY = '    return f"{cents // 100}.{cents % 100:02}"'
_FIX_ROUNDING: tuple[Step, ...] = (
    _edit("shop/cart.py", _TAX, "        return (self.total() * TAX_PERCENT + 50) // 100"),
    _TEST,
    _commit("Round tax half up", "The half cent was cut off; the tutorial says half up."),
)
_FIX_ROUNDING_OTHERWISE: tuple[Step, ...] = (
    _edit(
        "shop/cart.py",
        _TAX,
        "        # Half a cent is a cent.\n        return ((self.total() * TAX_PERCENT) + 50) // 100",
    ),
    _TEST,
    _commit("Round the tax, do not cut it off", "Half a cent is a cent, as the tutorial says."),
)
_CUT_REFUND: list[Step] = [
    _edit("shop/pay.py", _REFUNDED, f"        cents = min(cents, self.cents - self.refunded)\n{_REFUNDED}"),
    _TEST,
    _commit("Pay back what is left at most", "As a person decided."),
    _report("A refund is cut to what is left, as was decided."),
]
_REFUSE_REFUND: list[Step] = [
    _edit(
        "shop/pay.py",
        _REFUNDED,
        "        if cents > self.cents - self.refunded:\n"
        f'            raise SystemExit("more than is left")\n{_REFUNDED}',
    ),
    _TEST,
    _commit("Refuse a refund of more than is left", "As a person decided."),
    _report("A refund of more than is left is refused, as was decided."),
]
_REPORT_BLOCKED = _report(
    "Blocked: somebody must say whether a refund that is too large is cut or refused.",
    {"tests_passing_after": None}
    | _escalation(
        "BLOCKER",
        "Is a refund that is too large cut, or refused?",
        "The tutorial's block can be read either way.",
        "shop/pay.py",
        9,
    ),
)

CAST: tuple[Role, ...] = (
    Role(
        "tests/test_pay.py::test_card_is_checked",
        (
            _say("I am working on the card check. The tutorial says that a mistyped card is refused."),
            *_inspect("shop/pay.py"),
            _say("Doubled digits above nine must be reduced. I will ask the sandbox for a test card."),
            _think(3.0),
            ["crash", "ConnectionRefusedError: [Errno 111] Connection refused: sandbox.pay.example:443"],
        ),
        ends="crash",
        exit_status=3,
    ),
    Role(
        "tests/test_login.py::test_redirect_keeps_query",
        (
            _say("The redirect drops the query. Looking at who calls it."),
            *_inspect("shop/login.py"),
            _edit(
                "shop/login.py",
                '    return ("302", url)',
                '    return ("302", f"{url}?{query}" if query else url)',
            ),
            _TEST,
            _commit("Keep the query when login redirects", "Guests lost what they had asked for."),
            _say("No test covers a redirect without a query. I will add one line."),
            _think(4.0),
            _edit(
                "tests/test_login.py",
                """== (0, "302 /cart?item=tea\\n")\n""",
                """== (0, "302 /cart?item=tea\\n")\n"""
                """    assert acme("./acme login ann --password 'open sesame' --to /cart") == (0, "302 /cart\\n")\n""",
            ),
            _TEST,
            _commit("Test a redirect without a query", "A stray `?` would have gone unnoticed.", "IMPROVE_TEST"),
            _report("Login keeps the query. One fix, one line of test.", importance=("high", "Links break.")),
        ),
    ),
    Role(
        "tests/test_cart.py::test_tax_rounds_half_up",
        (
            _say("2.57 is expected, 2.56 comes out: the half cent is cut off instead of rounded."),
            *_inspect("shop/cart.py"),
            *_FIX_ROUNDING,
            _report("Tax is rounded half up, as the block says.", importance=("high", "Wrong amounts.")),
        ),
    ),
    Role(
        "tests/test_till.py::test_till_opens_again",
        (
            _say("The till: I will run its test first."),
            ["read", "shop/till.py"],
            _TEST,
            _say("It returned? Then the lock disappears by itself."),
        ),
        ends="timeout",
        exit_status=None,
    ),
    Role(
        "tests/test_receipt.py::test_receipt_adds_tax",
        (
            _say("The receipt is one cent short of tax. That is the rounding in the cart."),
            *_inspect("shop/cart.py"),
            *_FIX_ROUNDING,
            _say("The sum line still differs: it must have to do with the tax."),
            _edit("shop/cart.py", "{money(self.total())}", "{money(self.total() - self.tax())}"),
            _TEST,
            _commit("Let the sum follow the tax", "The receipt left the tax out of its sum."),
            _say("It is another sum now. Good enough: green."),
            _report(
                "Fixed: the receipt is right, and **all tests pass**.",
                {"tests_passing_after": True, "test_runs": [{"run_name": "after", "description_markdown": "passed"}]},
            ),
        ),
    ),
    Role(
        "tests/test_login.py::test_five_failures_lock",
        (
            _say("Five failures should lock, but it takes six. An off-by-one, or intended? Reading."),
            *_inspect("shop/login.py"),
            _think(4.0),
            ["permit", "git log -S ATTEMPTS --oneline -- shop/login.py"],
            _edit("shop/login.py", _LOCKED, "        return self.failed.get(name, 0) >= ATTEMPTS"),
            _TEST,
            _commit("Lock after five failures, not six", "An off-by-one: `>` instead of `>=`."),
            _report("The door locks as the tutorial says.", importance=("critical", "A door stays open.")),
        ),
    ),
    Role(
        "tests/test_login.py::test_the_last_attempt_is_announced",
        (
            _say("After the fifth failure it says “0 attempts left” instead of “locked”."),
            *_inspect("shop/login.py"),
            _say("Two places count the same failures. `is_locked` will use `left`, so that they cannot differ."),
            _edit("shop/login.py", _LOCKED, "        return self.left(name) == 0"),
            _TEST,
            _think(3.0),
            _commit("Lock when no attempt is left", "One count decides: the announced one."),
            _report("A door without attempts left is locked.", importance=("critical", "A door stays open.")),
        ),
    ),
    Role(
        "tests/test_cart.py::test_mean_price_counts_every_thing",
        (
            _say("5.25 is the mean of two prices. The tutorial says that every item counts: 5.00."),
            *_inspect("shop/cart.py"),
            _say("So the program is right, and the test is wrong."),
            _edit("tests/test_cart.py", '(0, "5.25\\n")', '(0, "5.00\\n")'),
            _TEST,
            _commit("Expect the mean of items, not of prices", "The tutorial counts every item.", "FIX_TEST"),
            _report(
                "The test expected the wrong mean; the program was right.",
                _escalation(
                    "UNCAUGHT_BUG",
                    "`mean_price` of an empty cart divides by zero",
                    "Seen while reading; no test covers it.",
                    "shop/cart.py",
                    36,
                ),
            ),
        ),
    ),
    Role(
        "tests/test_cart.py::test_total",
        (
            _say("The tutorial's first block and its test agree."),
            *_inspect("tutorial.sh"),
            _report("Nothing to change: the test proves its block, and is green."),
        ),
        ends="unchanged",
    ),
    Role(
        "tests/test_cart.py::test_many_things_are_taxed_once",
        (
            _say("4.28 expected, 4.27 comes out. Rounded down, where the block says half up."),
            *_inspect("shop/cart.py"),
            *_FIX_ROUNDING_OTHERWISE,
            _say("And `money` does by hand what a format does."),
            _edit("shop/cart.py", _MONEY, '    return f"{cents / 100:g}"'),
            _TEST,
            _commit("Format money shortly", "Less arithmetic to read; the test is green."),
            _say("The test covers many of one item, but no mix of items."),
            _think(3.0),
            _edit(
                "tests/test_cart.py",
                '    assert acme("./acme cart tax") == (0, "4.28\\n")\n',
                '    assert acme("./acme cart tax") == (0, "4.28\\n")\n'
                '    acme("./acme cart add pot")\n'
                '    assert acme("./acme cart tax") == (0, "5.42\\n")\n',
            ),
            _TEST,
            _commit("Test the tax of mixed items", "Taxing line by line would have gone unnoticed.", "IMPROVE_TEST"),
            _report("Tax is rounded once, for all items together.", importance=("high", "Wrong amounts.")),
        ),
    ),
    Role(
        "tests/test_login.py::test_the_right_word_opens",
        (
            _say("The right word opens, the wrong one does not. Does the test check both?"),
            *_inspect("tests/test_login.py"),
            _say("It does, and each flag matters."),
            _report("Nothing to change."),
        ),
        ends="unchanged",
    ),
    Role(
        "tests/test_pay.py::test_refund_never_exceeds_payment",
        (
            _say("A refund can exceed the payment. That loses money, so I will start with the test."),
            *_inspect("shop/pay.py"),
            _say("The block does not say whether the second refund is cut or refused, and the test takes both."),
            [
                "ask",
                "What should a refund do that is more than what is left?",
                ["Pay back what is left", "Refuse it"],
                [_CUT_REFUND, _REFUSE_REFUND, [_REPORT_BLOCKED]],
            ],
        ),
        ends="blocked",
        answer="Refuse it: the clerk shall see it.",
    ),
    Role(
        "tests/test_help.py::test_help_names_every_command",
        (
            _say("The help: a quick one."),
            *_inspect("shop/main.py"),
            ["babble", '{"errored": false, "changes": {"FIX_IMPL": {"status": "SUCCEEDED",\n** and then it'],
        ),
        ends="unreadable",
    ),
    Role(
        "tests/test_cart.py::test_merge_adds_counts",
        (
            _say("Merging two carts loses counts: update() replaces the line."),
            *_inspect("shop/cart.py"),
            _edit(
                "shop/cart.py",
                "        self.lines.update(other.lines)",
                "        for item, (price, count) in other.lines.items():\n"
                "            self.lines[item] = (price, count)",
            ),
            _TEST,
            _say("Still red, and I do not see why. I will revert it rather than leave half a change."),
            ["undo", "FIX_IMPL", "Merging line by line did not help."],
            _report("Not fixed: merging carts loses counts, and my change did not help."),
        ),
        ends="red",
    ),
)


def cast(agents: int, first: tuple[str, ...] = ()) -> tuple[Role, ...]:
    """Return the first `agents` roles; beyond the fourteen they repeat on copies of their tests.

    `first`: names of tests whose roles come first.
    """
    names = [role.test.partition("::")[2] for role in CAST]
    chosen = [CAST[names.index(name)] for name in first]
    order = [*chosen, *(role for role in CAST if role not in chosen)]
    return tuple(_copied(order[number % len(order)], number // len(order)) for number in range(agents))


def files(agents: int) -> Mapping[str, str]:
    """Return the sample repository for so many agents, path → text, with a copy of its tests for each repetition."""
    texts = dict(FILES)
    for turn in range(1, (agents - 1) // len(CAST) + 1):
        for path, text in FILES.items():
            if path.startswith("tests/test_"):
                texts[_copy_name(path, turn)] = text
    return texts


def _copied(role: Role, turn: int) -> Role:
    if turn == 0:
        return role
    path = role.test.partition("::")[0]
    copy = _copy_name(path, turn)
    story = tuple(json.loads(json.dumps(role.story).replace(path, copy)))
    return replace(role, test=role.test.replace(path, copy), story=story)


def _copy_name(path: str, turn: int) -> str:
    return f"{path.removesuffix('.py')}_{turn + 1}.py"
