"""The tutorial of the demo's shop, and the tests that cite its blocks, as text for `sample`.

Each test runs the commands of its block in process, in a folder of its own. Some fail because the program is wrong, one
because the test is wrong, one hangs; a few pass.
"""

from __future__ import annotations

TUTORIAL = """\
#!/bin/sh
# A tour of the shop. Tests in tests/ cover its blocks, but for one that waits for an agent that writes its tests.
set -eu

##################################################
# Fill a cart
##################################################

# Two teas, and what they cost.
./acme cart add tea --count 2
./acme cart total

# Tax is rounded half up.
./acme cart add tea --count 3
./acme cart tax

# The mean price: every item counts.
./acme cart add tea --count 2
./acme cart add pot
./acme cart mean

# Save a cart, and merge it into another one later: nothing gets lost.
./acme cart add tea --count 2
./acme cart save aside.json
./acme cart merge aside.json
./acme cart total

# Goods, tax, and their sum.
./acme cart add tea --count 3
./acme receipt

##################################################
# Come in
##################################################

# The right password opens, and leads to the requested page with its query.
./acme login ann --password 'open sesame' --to '/cart?item=tea'

# Five wrong passwords lock the door. Until then the number of attempts left is shown.
./acme login ann --password 'open barley'

##################################################
# Pay
##################################################

# A mistyped card is refused before any money moves.
./acme pay --card '4539 1488 0343 6467'

# A refund is never more than the payment.
./acme pay refund --paid 500 --cents 300 --cents 300

# A refund may come in parts: each of them is paid back.
./acme pay refund --paid 500 --cents 200 --cents 100

# The till opens any number of times.
./acme till --times 2

##################################################
# Put a cart aside
##################################################

##################################################
# All of it
##################################################

# All commands.
./acme --help
"""

CONFTEST = '''\
import shlex

import pytest

from shop.main import main


@pytest.fixture
def acme(tmp_path, monkeypatch, capsys):
    """Runs one command line of the tutorial; returns its exit status and what it printed, stderr last."""
    monkeypatch.setenv("ACME_HOME", str(tmp_path))

    def run(line):
        try:
            status = main(shlex.split(line)[1:])
        except SystemExit as end:
            status = end.code
        output = capsys.readouterr()
        return status or 0, output.out + output.err

    return run
'''

TEST_CART = '''\
"""./acme cart"""


def test_total(acme):
    """
    Tutorial block:
        # Two teas, and what they cost.
        ./acme cart add tea --count 2
        ./acme cart total
    """
    acme("./acme cart add tea --count 2")
    assert acme("./acme cart total") == (0, "9.00\\n")


def test_tax_rounds_half_up(acme):
    """
    Tutorial block:
        # Tax is rounded half up.
        ./acme cart add tea --count 3
        ./acme cart tax
    """
    acme("./acme cart add tea --count 3")
    assert acme("./acme cart tax") == (0, "2.57\\n")


def test_many_things_are_taxed_once(acme):
    """
    Tutorial block:
        # Tax is rounded half up.
        ./acme cart add tea --count 3
        ./acme cart tax
    """
    acme("./acme cart add tea --count 5")
    assert acme("./acme cart tax") == (0, "4.28\\n")


def test_mean_price_counts_every_thing(acme):
    """
    Tutorial block:
        # The mean price: every item counts.
        ./acme cart add tea --count 2
        ./acme cart add pot
        ./acme cart mean
    """
    acme("./acme cart add tea --count 2")
    acme("./acme cart add pot")
    assert acme("./acme cart mean") == (0, "5.25\\n")


def test_merge_adds_counts(acme):
    """
    Tutorial block:
        # Save a cart, and merge it into another one later: nothing gets lost.
        ./acme cart add tea --count 2
        ./acme cart save aside.json
        ./acme cart merge aside.json
        ./acme cart total
    """
    acme("./acme cart add tea --count 2")
    acme("./acme cart save aside.json")
    acme("./acme cart merge aside.json")
    assert acme("./acme cart total") == (0, "18.00\\n")
'''

TEST_RECEIPT = '''\
"""./acme receipt"""


def test_receipt_adds_tax(acme):
    """
    Tutorial block:
        # Goods, tax, and their sum.
        ./acme cart add tea --count 3
        ./acme receipt
    """
    acme("./acme cart add tea --count 3")
    assert acme("./acme receipt") == (0, "3 tea 13.50\\ntax 2.57\\nsum 16.07\\n")
'''

TEST_LOGIN = '''\
"""./acme login"""


def test_the_right_word_opens(acme):
    """
    Tutorial block:
        # The right password opens, and leads to the requested page with its query.
        ./acme login ann --password 'open sesame' --to '/cart?item=tea'
    """
    status, output = acme("./acme login ann --password 'open sesame' --to '/cart?item=tea'")
    assert status == 0
    assert output.startswith("302 /cart")
    assert acme("./acme login ann --password 'open barley' --to '/cart?item=tea'")[0] == 1


def test_redirect_keeps_query(acme):
    """
    Tutorial block:
        # The right password opens, and leads to the requested page with its query.
        ./acme login ann --password 'open sesame' --to '/cart?item=tea'
    """
    assert acme("./acme login ann --password 'open sesame' --to '/cart?item=tea'") == (0, "302 /cart?item=tea\\n")


def test_five_failures_lock(acme):
    """
    Tutorial block:
        # Five wrong passwords lock the door. Until then the number of attempts left is shown.
        ./acme login ann --password 'open barley'
    """
    for _ in range(5):
        acme("./acme login ann --password 'open barley'")
    assert acme("./acme login ann --password 'open sesame'")[0] == 1


def test_the_last_attempt_is_announced(acme):
    """
    Tutorial block:
        # Five wrong passwords lock the door. Until then the number of attempts left is shown.
        ./acme login ann --password 'open barley'
    """
    output = [acme("./acme login ann --password 'open barley'")[1].strip() for _ in range(5)]
    assert output[3:] == ["1 attempts left", "locked"]
'''

TEST_PAY = '''\
"""./acme pay"""


def test_card_is_checked(acme):
    """
    Tutorial block:
        # A mistyped card is refused before any money moves.
        ./acme pay --card '4539 1488 0343 6467'
    """
    assert acme("./acme pay --card '4539 1488 0343 6467'") == (0, "paid\\n")
    assert acme("./acme pay --card '4539 1488 0343 6468'") == (1, "refused\\n")


def test_refund_never_exceeds_payment(acme):
    """
    Tutorial block:
        # A refund is never more than the payment.
        ./acme pay refund --paid 500 --cents 300 --cents 300
    """
    status, output = acme("./acme pay refund --paid 500 --cents 300 --cents 300")
    assert status != 0 or output == "3.00 2.00\\n"
'''

TEST_TILL = '''\
"""./acme till"""


def test_till_opens_again(acme):
    """
    Tutorial block:
        # The till opens any number of times.
        ./acme till --times 2
    """
    assert acme("./acme till --times 2") == (0, "open\\nopen\\n")
'''

TEST_HELP = '''\
"""./acme --help"""


def test_help_names_every_command(acme):
    """
    Tutorial block:
        # All commands.
        ./acme --help
    """
    status, output = acme("./acme --help")
    assert status == 0
    assert all(name in output for name in ("cart", "receipt", "login", "pay", "till"))
'''
