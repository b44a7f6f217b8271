"""The sample repository of the demo: a small shop with real defects; its tutorial and tests are in `sample_tests`.

It is text, not files, so that no test collector, type checker or packager takes it for a part of this project. The
program uses the standard library only, and its tests need only pytest. Each defect belongs to a story of `scenarios`,
most of which fix exactly these lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.demo.sample_tests import (  # fmt: skip
    CONFTEST,
    TEST_CART,
    TEST_HELP,
    TEST_LOGIN,
    TEST_PAY,
    TEST_RECEIPT,
    TEST_TILL,
    TUTORIAL,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = '''\
#!/usr/bin/env python3
"""The shop at the command line."""

from shop.main import main

raise SystemExit(main())
'''

MAIN = '''\
"""The commands of the shop. What it keeps lies in $ACME_HOME, or here."""

import argparse
import os
import sys
from pathlib import Path

from shop.cart import Cart, money
from shop.login import Door, redirect
from shop.pay import Payment, is_card
from shop.till import Till

PRICES = {"tea": 450, "pot": 600}


def parser():
    made = argparse.ArgumentParser("acme", description="A small shop for a demo.")
    commands = made.add_subparsers(dest="command", required=True)
    cart = commands.add_parser("cart", help="what a guest wants to buy")
    cart.add_argument("act", choices=["add", "total", "tax", "mean", "save", "merge"])
    cart.add_argument("what", nargs="?")
    cart.add_argument("--count", type=int, default=1)
    commands.add_parser("receipt", help="goods, tax, and the sum of both")
    login = commands.add_parser("login", help="who may come in")
    login.add_argument("name")
    login.add_argument("--password", required=True)
    login.add_argument("--to", default="/cart")
    pay = commands.add_parser("pay", help="money comes in, and sometimes goes back")
    pay.add_argument("act", nargs="?", choices=["refund"])
    pay.add_argument("--card")
    pay.add_argument("--paid", type=int, default=500)
    pay.add_argument("--cents", type=int, action="append", default=[])
    till = commands.add_parser("till", help="open the till, and close it again")
    till.add_argument("--times", type=int, default=1)
    return made


def main(arguments=None):
    options = parser().parse_args(arguments)
    home = Path(os.environ.get("ACME_HOME", "."))
    return globals()[options.command](options, home)


def cart(options, home):
    mine = Cart.load(home / "cart.json")
    if options.act == "add":
        mine.add(options.what, PRICES[options.what], options.count)
        mine.save(home / "cart.json")
    elif options.act == "save":
        mine.save(home / options.what)
    elif options.act == "merge":
        mine.merge(Cart.load(home / options.what))
        mine.save(home / "cart.json")
    else:
        print(money({"total": mine.total, "tax": mine.tax, "mean": mine.mean_price}[options.act]()))
    return 0


def receipt(options, home):
    print(Cart.load(home / "cart.json").receipt())
    return 0


def login(options, home):
    door = Door.load(home / "door.json")
    is_open = door.knock(options.name, options.password)
    door.save(home / "door.json")
    if is_open:
        print(*redirect(*options.to.split("?", 1)))
    elif door.is_locked(options.name):
        print("locked", file=sys.stderr)
    else:
        print(f"{door.left(options.name)} attempts left", file=sys.stderr)
    return 0 if is_open else 1


def pay(options, home):
    if options.act == "refund":
        payment = Payment(options.paid)
        print(*(money(payment.refund(cents)) for cents in options.cents))
        return 0
    print("paid" if is_card(options.card) else "refused")
    return 0 if is_card(options.card) else 1


def till(options, home):
    for _ in range(options.times):
        with Till(home / "till.lock"):
            print("open")
    return 0
'''

CART = '''\
"""What a guest wants to buy. Prices are whole cents."""

import json

TAX_PERCENT = 19


def money(cents):
    return f"{cents // 100}.{cents % 100:02}"


class Cart:
    def __init__(self, lines=()):
        self.lines = dict(lines)

    @classmethod
    def load(cls, path):
        return cls(json.loads(path.read_text()) if path.exists() else {})

    def save(self, path):
        path.write_text(json.dumps(self.lines))

    def add(self, item, price, count=1):
        before = self.lines.get(item, (price, 0))[1]
        self.lines[item] = (price, before + count)

    def total(self):
        return sum(price * count for price, count in self.lines.values())

    def tax(self):
        return self.total() * TAX_PERCENT // 100

    def mean_price(self):
        return self.total() // sum(count for _, count in self.lines.values())

    def merge(self, other):
        self.lines.update(other.lines)

    def receipt(self):
        goods = [f"{count} {item} {money(price * count)}" for item, (price, count) in self.lines.items()]
        return "\\n".join([*goods, f"tax {money(self.tax())}", f"sum {money(self.total())}"])
'''

LOGIN = '''\
"""Who may come in, and where they land."""

import json

ATTEMPTS = 5


def redirect(url, query=""):
    return ("302", url)


class Door:
    def __init__(self, failed=()):
        self.failed = dict(failed)

    @classmethod
    def load(cls, path):
        return cls(json.loads(path.read_text()) if path.exists() else {})

    def save(self, path):
        path.write_text(json.dumps(self.failed))

    def knock(self, name, password):
        if password == "open sesame" and not self.is_locked(name):
            return True
        self.failed[name] = self.failed.get(name, 0) + 1
        return False

    def left(self, name):
        return max(0, ATTEMPTS - self.failed.get(name, 0))

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
        return cents


def is_card(number):
    """The check that Luhn invented."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = [digit * 2 for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
'''

TILL = '''\
"""The till: one at a time."""

import os
import time


class Till:
    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        while True:
            try:
                os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL))
                return self
            except FileExistsError:
                time.sleep(0.2)

    def __exit__(self, *_):
        self.lock.touch()
'''

README = """\
# Acme shop

A small shop for a demo. `tutorial.sh` shows what it does, `tests/` proves it.
"""

PYPROJECT = """\
[project]
name = "acme-shop"
version = "1"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
markers = ["unhappy: what a block does where something is wrong"]
"""

FILES: Mapping[str, str] = {
    "README.md": README,
    "acme": PROGRAM,
    "tutorial.sh": TUTORIAL,
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/main.py": MAIN,
    "shop/cart.py": CART,
    "shop/login.py": LOGIN,
    "shop/pay.py": PAY,
    "shop/till.py": TILL,
    "tests/conftest.py": CONFTEST,
    "tests/test_cart.py": TEST_CART,
    "tests/test_help.py": TEST_HELP,
    "tests/test_login.py": TEST_LOGIN,
    "tests/test_pay.py": TEST_PAY,
    "tests/test_receipt.py": TEST_RECEIPT,
    "tests/test_till.py": TEST_TILL,
    "pyproject.toml": PYPROJECT,
    ".gitignore": ".selftest/\n__pycache__/\nselftest-tui.toml\n",
}
"""Path in the repository → text. What begins with `#!` is executable."""
