"""A small shop, and what five agents committed to it: all that a review has to show, made with the real git.

Names, contents and dates are fixed, so that every id, and so every picture, is the same on every machine.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = '''"""Who may come in."""

import time

LIMIT = 5


class Login:
    """One attempt after the other."""

    def __init__(self, request):
        self.request = request
        self.failures = 0

    def redirect(self, user):
        # Members and guests go to the same page.
        url = user.home if user is not None else "/"
        return Response(302, url)

    def attempt(self, name, password):
        if self.failures >= LIMIT:
            raise TooMany("try again later")
        user = find(name)
        if user is None or not user.check(password):
            self.failures += 1
            return None
        return user
'''
CART = '''"""What is bought together."""


class Cart:
    def __init__(self):
        self.lines = []

    def total(self):
        return sum(line.price for line in self.lines)

    def mean(self):
        return self.total() / len(self.lines)
'''
PAY = '''"""Money, asked of a bank."""


def pay(bank, amount):
    answer = bank.post("/pay", amount)
    if answer.status != 200:
        raise PaymentError(answer.status)
    return answer.receipt


def tax(amount, rate):
    return amount * rate
'''
START: dict[str, str | bytes | None] = {
    "src/login.py": LOGIN,
    "src/cart.py": CART,
    "src/pay.py": PAY,
    "docs/use.md": "# Use\n\nRun it.\n",
    "logo.png": b"\x89PNG\r\n\0\0\0 a small picture",
}
QUERY = LOGIN.replace("return Response(302, url)", "return Response(302, url + query(self.request))")
EMPTY = CART.replace(
    "        return self.total() / len",
    "        if not self.lines:\n            return 0\n        return self.total() / len",
)
_ASKED = '    answer = bank.post("/pay", amount)\n'
_FAILED = "    if answer.status == 500:\n"
RETRY = PAY.replace(_ASKED, f"{_ASKED}{_FAILED}    {_ASKED}")
LOGGED = RETRY.replace(_FAILED, f"{_FAILED}        log.warning('once more')\n")
ROUNDED = PAY.replace("return amount * rate", "return round(amount * rate, 2)")
ROUNDED_TOO = PAY.replace("return amount * rate", "return round(rate * amount, 2)")
CEILED = PAY.replace("return amount * rate", "return ceil(amount * rate * 100) / 100")

AGENTS = ("ada", "bob", "eve", "kim", "lee")


def make_shop(folder: Path) -> Repository:
    """The repository at `folder`, on its branch `main`, with a branch for each agent."""
    made = Repository.make(folder)
    made.commit("Open the shop", START)
    made.git("branch", "release")

    def on(agent: str) -> None:
        made.git("checkout", "-q", "-b", agent, "release")

    on("ada")
    made.commit("[FIX_IMPL] Guard the empty cart", {"src/cart.py": EMPTY}, "Ada")
    made.commit("[FIX_IMPL] Retry a payment once on 500", {"src/pay.py": RETRY}, "Ada")
    made.commit("[FIX_IMPL] Log the second attempt", {"src/pay.py": LOGGED}, "Ada")
    made.commit("[FIX_TEST] Test the empty cart", {"tests/test_cart.py": "def test_empty():\n    assert True\n"}, "Ada")
    on("bob")
    made.commit("[FIX_IMPL] Guard the empty cart", {"src/cart.py": EMPTY}, "Bob")
    made.commit("[FIX_IMPL] Round taxes to cents\n\nImportance: high", {"src/pay.py": ROUNDED}, "Bob")
    made.commit("[FIX_TUTORIAL] Tell of taxes", {"docs/use.md": "# Use\n\nRun it. Taxes are rounded.\n"}, "Bob")
    on("eve")
    made.commit("[FIX_IMPL] Guard the empty cart", {"src/cart.py": EMPTY}, "Eve")
    made.commit("[FIX_IMPL] Keep the query on redirect", {"src/login.py": QUERY}, "Eve")
    made.commit("[FIX_TEST] Test redirects", {"tests/test_login.py": "def test_redirect():\n    assert True\n"}, "Eve")
    on("kim")
    made.commit("[FIX_IMPL] Round taxes up", {"src/pay.py": CEILED}, "Kim")
    made.commit("[FIX_IMPL] Keep the query on redirect", {"src/login.py": QUERY}, "Kim")
    made.commit("[CI] Run tests in parallel", {"tox.ini": "[tox]\nenvlist = py\n"}, "Kim")
    on("lee")
    made.commit("[FIX_IMPL] Round taxes, in cents", {"src/pay.py": ROUNDED_TOO}, "Lee")
    made.commit(
        "[FIX_IMPL] Draw the logo anew \x1b[31m[bold]",
        {"logo.png": b"\x89PNG\r\n\0\0\0 another, bigger picture"},
        "Lee",
    )
    made.git("checkout", "-q", "main")
    return made


@pytest.fixture(scope="session")
def shop_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop, made once."""
    return make_shop(tmp_path_factory.mktemp("once") / "shop").folder


@pytest.fixture
def shop(shop_once: Path, tmp_path: Path) -> Repository:
    """A shop of one's own, in a folder with a blank in its name."""
    shutil.copytree(shop_once, tmp_path / "a shop", symlinks=True)
    return Repository(tmp_path / "a shop")
