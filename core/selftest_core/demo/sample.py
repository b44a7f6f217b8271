"""The sample repository of the demo: a small shop with real defects, the tests that show them, and a tutorial.

Text, not files, so that nothing that runs over this project (a test collector, a type checker, a packager) takes
the shop's tests for ours. It must stay plain standard library: the actors import and test it for real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CART = '''\
"""What a guest wants to buy."""

TAX_PERCENT = 19


class Cart:
    def __init__(self):
        self.lines = {}

    def add(self, item, price, count=1):
        """Prices are whole cents."""
        self.lines[item] = (price, count)

    def total(self):
        return sum(price * count for price, count in self.lines.values())

    def tax(self):
        return self.total() * TAX_PERCENT // 100

    def mean_price(self):
        return self.total() // sum(count for _, count in self.lines.values())

    def merge(self, other):
        self.lines.update(other.lines)
'''

LOGIN = '''\
"""Who may come in, and where they land."""

ATTEMPTS = 5


def redirect(url, query=""):
    return ("302 Found", url)


class Door:
    def __init__(self):
        self.failed = {}

    def knock(self, name, password):
        if password == "open sesame":
            return True
        self.failed[name] = self.failed.get(name, 0) + 1
        return False

    def is_locked(self, name):
        return self.failed.get(name, 0) > ATTEMPTS
'''

PAY = '''\
"""Money comes in, and sometimes goes back."""


class Payment:
    def __init__(self, cents):
        self.cents = cents
        self.refunded = 0

    def refund(self, cents):
        self.refunded += cents
        return self.cents - self.refunded


def is_card(number):
    """The check that Luhn invented."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = [digit * 2 for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
'''

TEST_CART = '''\
"""./shop cart"""

from shop.cart import Cart


def test_total():
    cart = Cart()
    cart.add("tea", 450, 2)
    assert cart.total() == 900


def test_tax_rounds_half_up():
    cart = Cart()
    cart.add("tea", 450, 3)
    assert cart.tax() == 257


def test_empty_cart_has_a_mean_price():
    assert Cart().mean_price() == 0


def test_merge_adds_counts():
    mine, theirs = Cart(), Cart()
    mine.add("tea", 450, 1)
    theirs.add("tea", 450, 2)
    mine.merge(theirs)
    assert mine.total() == 1350
'''

TEST_LOGIN = '''\
"""./shop login"""

from shop.login import Door, redirect


def test_the_right_word_opens():
    assert Door().knock("ann", "open sesame")


def test_redirect_keeps_query():
    assert redirect("/cart", "item=tea") == ("302 Found", "/cart?item=tea")


def test_five_failures_lock():
    door = Door()
    for _ in range(5):
        door.knock("ann", "open barley")
    assert door.is_locked("ann")
'''

TEST_PAY = '''\
"""./shop pay"""

from shop.pay import Payment, is_card


def test_card_is_checked():
    assert is_card("4539 1488 0343 6467")


def test_refund_never_exceeds_payment():
    payment = Payment(500)
    payment.refund(300)
    payment.refund(300)
    assert payment.refunded == 500
'''

TUTORIAL = """\
#!/bin/sh
# A tour of the shop.

## Fill a cart

# Two teas, and what they cost with tax.
./shop cart add tea --count 2
./shop cart total

## Come in

# Five wrong passwords lock the door.
./shop login ann --password 'open barley'

## Pay

# A card that was mistyped is refused before any money moves.
./shop pay --card '4539 1488 0343 6467'

# Money goes back, but never more than came in.
./shop pay refund --cents 300
"""

README = """\
# Acme shop

A small shop to try things on. `tutorial.sh` shows what it does, `tests/` proves it.
"""

FILES: Mapping[str, str] = {
    "README.md": README,
    "tutorial.sh": TUTORIAL,
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/cart.py": CART,
    "shop/login.py": LOGIN,
    "shop/pay.py": PAY,
    "tests/test_cart.py": TEST_CART,
    "tests/test_login.py": TEST_LOGIN,
    "tests/test_pay.py": TEST_PAY,
    "pyproject.toml": '[project]\nname = "acme-shop"\nversion = "1"\n',
    ".gitignore": ".selftest/\n__pycache__/\n",
}
"""Path in the repository → text."""
