"""Changes that say the same are one row, two intents never are, and nothing that arrives later moves a change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.review.repositories import Repository
from selftest_core.git.commit_changes import PathChange
from selftest_core.git.merges import Side
from selftest_core.git.object_store import ObjectStore
from selftest_core.review.changes.collect_changes import Branch, Change, collect_changes
from selftest_core.review.changes.fingerprints import fingerprint
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.ranking import hot_files, rank
from selftest_core.review.changes.rows import group_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILE = "def total(items):\n    return sum(item.price for item in items)\n\n\ndef name(user):\n    return user.name\n"
PRICE = """\
def price(items, rate=3):
    total = sum(items) * (1 + rate / 100)
    if total < 0:
        return 0
    return total + 3


def cost(items):
    total = sum(items)
    if total < 0:
        return 0
    return total
"""
TESTS = "from shop import price\n\n\ndef test_sum():\n    assert price([1]) == 4\n"
CONFTEST = "import pytest\n"
README = "# Shop\n\nIt sells things.\n\n## Use\n\nRun it.\n"
BINARY = "\0\1\2"


def fixture(
    name: str = "home", call: str = "", value: str = "'/tmp/shop'", end: str = "", variable: str = "HOME"
) -> str:
    body = f"    monkeypatch.setenv('{variable}', {value})\n{end}"
    return f"{CONFTEST}\n\n@pytest.fixture{call}\ndef {name}(monkeypatch):\n{body}"


def price(*edits: tuple[str, str]) -> str:
    """PRICE with edits of its first function."""
    head, middle, tail = PRICE.partition("\n\ndef cost")
    for old, new in edits:
        assert old in head
        head = head.replace(old, new)
    return head + middle + tail


RETURN_0, SUM, ADD = "        return 0\n", "    total = sum(items) * (1 + rate / 100)\n", "    return total + 3\n"
DEF = "def price(items, rate=3):\n"
IF = "    if total < 0:\n        return 0\n"

SAME = {
    "quotes, layout and comments": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative')\n")),
        price((RETURN_0, '        # a mistake\n        raise ValueError(\n            "negative"\n        )\n')),
    ),
    "a message in other words": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative price')\n")),
        price((RETURN_0, "        raise ValueError(f'a price of {total} is negative')\n")),
    ),
    "an argument by its name, and a constant with a name": (
        "shop.py",
        PRICE,
        price((SUM, "    total = round(sum(items) * (1 + rate / 100), ndigits=2)\n")),
        price((SUM, "    cents = 2\n    total = round(sum(items) * (1 + rate / 100), cents)\n")),
    ),
    "a list that is made of an iterator": (
        "shop.py",
        PRICE,
        price((DEF, DEF + "    items = list(items)\n")),
        price((DEF, DEF + "    items = [*items]\n")),
    ),
    "the other side of a sum": (
        "shop.py",
        PRICE,
        price((ADD, "    return float(total + 3)\n")),
        price((ADD, "    return float(3 + total)\n")),
    ),
    "a result with a name": (
        "shop.py",
        PRICE,
        price((ADD, "    return max(total, 0) + 3\n")),
        price((ADD, "    result = max(total, 0) + 3\n    return result\n")),
    ),
    "a value with a name that is used at once": (
        "shop.py",
        PRICE,
        price((SUM, "    total = round(sum(items) * (1 + rate / 100), 2)\n")),
        price((SUM, "    raw = sum(items) * (1 + rate / 100)\n    total = round(raw, 2)\n")),
    ),
    "a message with a name": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative')\n")),
        price((RETURN_0, "        message = 'negative'\n        raise ValueError(message)\n")),
    ),
    "steps of one expression": (
        "shop.py",
        PRICE,
        price((ADD, "    text = str(total)\n    text = text.strip()\n    return text.upper()\n")),
        price((ADD, "    return str(total).upper().strip()\n")),
    ),
    "a fixture that hands on what it was given": (
        "conftest.py",
        CONFTEST,
        fixture(),
        fixture(end="    return monkeypatch\n"),
    ),
    "local names": (
        "shop.py",
        PRICE,
        price((IF, "    for one in items:\n        check(one)\n")),
        price((IF, "    for item in items:\n        check(item)\n")),
    ),
    "else after return": (
        "shop.py",
        PRICE,
        price((IF + ADD, "    if 0 > total:\n        return None\n    else:\n        return total + 3\n")),
        price((IF + ADD, "    if total < 0:\n        return None\n    return total + 3\n")),
    ),
    "a fixture with more words in its name": ("conftest.py", CONFTEST, fixture("home"), fixture("shop_home")),
    "a fixture for all tests": ("conftest.py", CONFTEST, fixture(call="()"), fixture(call="(autouse=True)")),
    "a fixture with a last yield": (
        "conftest.py",
        CONFTEST,
        fixture(value='"/tmp/shop"'),
        fixture(end="    yield  # undone by monkeypatch\n"),
    ),
    "a docstring and types of a new fixture": (
        "conftest.py",
        CONFTEST,
        fixture(),
        fixture().replace("(monkeypatch):\n", "(monkeypatch: pytest.MonkeyPatch) -> None:\n    '''A home.'''\n"),
    ),
    "JSON in another layout": ("data.json", '{"a": 1}', '{"a": 1, "b": [2]}', '{\n "b": [2],\n "a": 1\n}\n'),
    "TOML in another order": ("p.toml", "a = 1\n", "a = 1\nb = 2\n", "b = 2  # two\na = 1\n"),
    "prose with other line ends": ("README.md", README, README + "It is a shop.\n", README + "It is\na shop.\n"),
    "blanks at the ends of lines": ("run.sh", "a\n", "a\nb\n", "a\n\nb  \n"),
}
APART = {
    "clashing fixes of one line": (
        "shop.py",
        PRICE,
        price((SUM, "    total = sum(items)\n    total = total * (1 + rate / 100)\n")),
        price((SUM, "    total = sum(items, 0.0) * (1 + rate / 100)\n")),
    ),
    "another value": (
        "shop.py",
        PRICE,
        price((SUM, "    total = round(sum(items) * (1 + rate / 100), 2)\n")),
        price((SUM, "    total = round(sum(items) * (1 + rate / 100), 3)\n")),
    ),
    "another condition": (
        "shop.py",
        PRICE,
        price(("total < 0", "total <= 0")),
        price(("total < 0", "total < 0 or not items")),
    ),
    "another error": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative')\n")),
        price((RETURN_0, "        raise TypeError('negative')\n")),
    ),
    "a message about something else": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative')\n")),
        price((RETURN_0, "        raise ValueError('no such rate')\n")),
    ),
    "data of an error": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise KeyError('price')\n")),
        price((RETURN_0, "        raise KeyError('price of it')\n")),
    ),
    "sorted or copied": (
        "shop.py",
        PRICE,
        price((DEF, DEF + "    items = list(items)\n")),
        price((DEF, DEF + "    items = sorted(items)\n")),
    ),
    "a list or a tuple as the result": (
        "shop.py",
        PRICE,
        price((ADD, "    return list(items)\n")),
        price((ADD, "    return tuple(items)\n")),
    ),
    "the other side of a difference": (
        "shop.py",
        PRICE,
        price((ADD, "    return total - rate\n")),
        price((ADD, "    return rate - total\n")),
    ),
    "brackets that matter": (
        "shop.py",
        PRICE,
        price((ADD, "    return round(total) + rate\n")),
        price((ADD, "    return round(total + rate)\n")),
    ),
    "arguments in another order": (
        "shop.py",
        PRICE,
        price((ADD, "    return pow(total, rate)\n")),
        price((ADD, "    return pow(rate, total)\n")),
    ),
    "once, or for each": (
        "shop.py",
        PRICE,
        price((ADD, "    one = make(total)\n    return [one for _ in items]\n")),
        price((ADD, "    return [make(total) for _ in items]\n")),
    ),
    "a name that is used again": (
        "shop.py",
        PRICE,
        price((ADD, "    one = make(total)\n    use(one)\n    return one\n")),
        price((ADD, "    one = make(total)\n    use(make(total))\n    return one\n")),
    ),
    "an option with another name": (
        "shop.py",
        PRICE,
        price((ADD, "    return fetch(total, timeout=5)\n")),
        price((ADD, "    return fetch(total, retries=5)\n")),
    ),
    "the same words in another function": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        return None\n")),
        PRICE[: PRICE.index("def cost")] + PRICE[PRICE.index("def cost") :].replace("return 0", "return None"),
    ),
    "more than the other": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        raise ValueError('negative')\n")),
        price((RETURN_0, "        raise ValueError('negative')\n"), (ADD, "    return total\n")),
    ),
    "a comment elsewhere, too": (
        "shop.py",
        PRICE,
        price((RETURN_0, "        return None\n")),
        price((RETURN_0, "        return None\n")).replace("def cost(items):\n", "def cost(items):\n    # FIXME\n"),
    ),
    "comments only": ("shop.py", PRICE, price((ADD, "    # x\n" + ADD)), price((ADD, "    # y\n" + ADD))),
    "a renamed function": (
        "shop.py",
        PRICE,
        PRICE.replace("def cost", "def total_cost"),
        PRICE.replace("def cost", "def total"),
    ),
    "the same fixture with another value": (
        "conftest.py",
        CONFTEST,
        fixture(value="'/tmp/a'"),
        fixture(value="'/tmp/b'"),
    ),
    "the same fixture of another variable": ("conftest.py", CONFTEST, fixture(), fixture(variable="LANG")),
    "fixtures with other names": ("conftest.py", CONFTEST, fixture("shop_home"), fixture("user_home")),
    "fixtures of another scope": ("conftest.py", CONFTEST, fixture(), fixture(call="(scope='session')")),
    "helpers with the same body": (
        "shop.py",
        PRICE,
        PRICE + "\n\ndef parse_price(x):\n    return float(x)\n",
        PRICE + "\n\ndef parse_weight(x):\n    return float(x)\n",
    ),
    "added tests with other names": (
        "tests/test_a.py",
        TESTS,
        TESTS + "\n\ndef test_a():\n    assert price([]) == 3\n",
        TESTS + "\n\ndef test_b():\n    assert price([]) == 3\n",
    ),
    "added tests of other values": (
        "tests/test_a.py",
        TESTS,
        TESTS + "\n\ndef test_a():\n    assert price([]) == 3\n",
        TESTS + "\n\ndef test_a():\n    assert price([2]) == 5\n",
    ),
    "JSON with another value": ("data.json", '{"a": 1}', '{"a": 2}', '{"a": true}'),
    "JSON with a key twice": ("data.json", "{}", '{"a": 1, "a": 2}', '{"a": 2}'),
    "TOML with another comment": ("p.toml", "a = 1\n", "a = 1  # x\n", "a = 1  # y\n"),
    "Markdown elsewhere": (
        "README.md",
        README,
        README.replace("things.", "things. See below."),
        README + "See below.\n",
    ),
    "indentation of YAML": ("c.yml", "a:\n  b: 1\n", "a:\n  b: 1\n  c: 2\n", "a:\n  b: 1\nc: 2\n"),
    "binary": ("logo.png", BINARY, BINARY + "\3", BINARY + "\4"),
    "minified": ("a.js", "x" * 300_000, "x" * 300_000 + " 1", "x" * 300_000 + "  1"),
    "broken Python": ("shop.py", PRICE, PRICE + "def (\n", PRICE + "def ((\n"),
    "Python that nests too deep": ("shop.py", "a = 1\n", "a = " + "-" * 5000 + "1\n", "a = " + "-" * 5001 + "1\n"),
    "no UTF-8": ("data.txt", "a", "\udcff", "\udcfe"),
}


def says_the_same(path: str, before: str, one: str, two: str, kinds: Sequence[Kind] = (Kind.TEST, Kind.TEST)) -> bool:
    texts = {f"{number:040}": text.encode("utf-8", "surrogateescape") for number, text in enumerate((before, one, two))}
    old, *new = (Side("100644", oid) for oid in texts)
    marks = [
        fingerprint(kind, (PathChange(path, old, side),), texts.__getitem__)
        for kind, side in zip(kinds, new, strict=True)
    ]
    assert marks[0].says_the_same(marks[1]) == marks[1].says_the_same(marks[0])
    return marks[0].says_the_same(marks[1])


@pytest.mark.parametrize("name", SAME)
def test_other_words_for_the_same(name: str) -> None:
    assert says_the_same(*SAME[name])


@pytest.mark.parametrize("name", APART)
def test_two_intents_never_look_like_one(name: str) -> None:
    assert not says_the_same(*APART[name])


def test_kinds_and_other_files_are_compared_too() -> None:
    assert not says_the_same(*SAME["local names"], kinds=(Kind.IMPLEMENTATION, Kind.TEST))
    path, before, one, _ = SAME["local names"]
    contents = {f"{number:040}": text.encode() for number, text in enumerate((before, one, "x"))}
    old, new, other = (Side("100644", oid) for oid in contents)
    whole = PathChange(path, old, new)
    read = contents.__getitem__
    alone = fingerprint(Kind.TEST, (whole,), read)
    assert alone != fingerprint(Kind.TEST, (whole, PathChange("more.txt", None, other)), read)
    assert alone != fingerprint(Kind.TEST, (PathChange(path, old, Side("100755", new.oid)),), read)
    assert alone != fingerprint(Kind.TEST, (PathChange("other.py", old, new),), read)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "r")
    made.commit("Start", {"src/cart.py": FILE, "src/other.py": FILE})
    return made


@pytest.fixture
def store(repository: Repository, tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as opened:
        yield opened


def changes_of(repository: Repository, store: ObjectStore, **commits: list[dict[str, str]]) -> dict[str, list[Change]]:
    base = repository.git("rev-parse", "main")
    branches = []
    for agent, contents in commits.items():
        repository.git("checkout", "-q", "-f", "-b", agent, "main")
        for files in contents:
            repository.commit(f"By {agent}", files, agent)
        branches.append(Branch(agent, repository.git("rev-parse", "HEAD")))
    changes = collect_changes(store, base, branches).changes
    return {agent: [change for change in changes if agent in change.agents] for agent in commits}


def guarded(word: str, name: str = "src/cart.py") -> dict[str, str]:
    return {name: FILE.replace("    return sum(", f"    if not items:  # {word}\n        return 0\n    return sum(")}


def test_changes_that_say_the_same_are_one_row_and_rank_together(repository: Repository, store: ObjectStore) -> None:
    made = changes_of(
        repository,
        store,
        ada=[guarded("an empty cart")],
        eve=[{"src/cart.py": FILE.replace("user.name", "user.full_name or user.login or 'nobody at all'")}],
        bob=[guarded("empty carts too")],
        zoe=[guarded("an empty cart", "src/other.py")],
    )
    everything = [change for changes in made.values() for change in changes]
    rows = group_changes(store, everything, {})
    assert sorted(len(row.members) for row in rows) == [1, 1, 2]
    (row,) = (row for row in rows if row.others)
    assert set(row.members) == {made["ada"][0].oid, made["bob"][0].oid}
    ranked = rank(everything, rows=[one.members for one in rows])
    places = [place for place, one in enumerate(ranked) if one.change.oid in row.members]
    assert places == [0, 1], "two agents speak for it"
    assert "2 texts of 2 agents" in ranked[0].why


def test_an_agents_own_next_try_is_no_alternative(repository: Repository, store: ObjectStore) -> None:
    again = [guarded("one"), {"src/cart.py": FILE}, guarded("two")]
    made = changes_of(repository, store, ada=again, bob=[guarded("three")])
    rows = group_changes(store, [*made["ada"], *made["bob"]], {})
    assert sorted(row.members for row in rows if row.others) == [(made["ada"][0].oid, made["bob"][0].oid)] or sorted(
        row.members for row in rows if row.others
    ) == [(made["bob"][0].oid, made["ada"][0].oid)]


def test_rows_that_need_each_other_are_ranked_all_the_same(repository: Repository, store: ObjectStore) -> None:
    one, two = guarded("x"), {"src/other.py": FILE.replace("user.name", "user.id")}
    other = {"src/other.py": two["src/other.py"].replace("user.id", "user.id  # its id")}
    made = changes_of(repository, store, ada=[one, two], bob=[other, guarded("y")])
    everything = [change for changes in made.values() for change in changes]
    rows = group_changes(store, everything, {})
    assert [len(row.members) for row in rows] == [2, 2]
    assert len(rank(everything, rows=[row.members for row in rows])) == 4


_WORDS = ("one", "two", "three")
_FIXES = ("return 0", "return None", "raise ValueError('empty')", "raise ValueError('an empty cart')")


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ObjectStore, str, list[Branch]]]:
    """Branches with four fixes in three texts each, one of them made twice, from four intents that look alike."""
    folder = tmp_path_factory.mktemp("variants")
    made = Repository.make(folder / "r")
    base = made.commit("Start", {"cart.py": FILE})
    texts = [(word, fix) for fix in _FIXES for word in _WORDS]
    branches = []
    for number, (word, fix) in enumerate([*texts, texts[0]]):
        made.git("checkout", "-q", "-f", "-b", f"agent-{number}", "main")
        text = FILE.replace("    return sum(", f"    if not items:  # {word}\n        {fix}\n    return sum(")
        branches.append(Branch(f"agent-{number}", made.commit(f"By {number}", {"cart.py": text}, f"agent-{number}")))
    with ObjectStore.open(folder / "engine.git", made.folder / ".git", os.environ) as store:
        yield store, base, branches


@settings(max_examples=12)
@given(st.data())
def test_what_arrives_later_moves_nothing(variants: tuple[ObjectStore, str, list[Branch]], data: st.DataObject) -> None:
    store, base, branches = variants
    order = data.draw(st.permutations(branches))
    arrived: dict[str, int] = {}
    known: dict[str, str] = {}
    for look, count in enumerate(sorted(data.draw(st.sets(st.integers(1, len(order)), min_size=3, max_size=4))), 1):
        arrived |= {branch.tip: look for branch in order[:count] if branch.tip not in arrived}
        # Branches are read in the order of the plan, and agents end in another one.
        read = sorted(order[:count], key=lambda branch: branch.agent)
        changes = collect_changes(store, base, read).changes
        row_of = {oid: row.id for row in group_changes(store, changes, arrived) for oid in row.members}
        now = {source.oid: row_of[change.oid] for change in changes for source in change.sources}
        assert known.items() <= now.items()
        assert len(set(now.values())) <= 3, "a number, None, and an error"
        known = now


def test_hot_files_are_counted_by_agents_and_not_by_commits(repository: Repository, store: ObjectStore) -> None:
    made = changes_of(
        repository,
        store,
        ada=[guarded("one"), guarded("two"), {"alone": "x\n"}],
        bob=[guarded("three"), {"src/other.py": "x\n"}],
        eve=[{"src/cart.py": "x\n", "src/other.py": "y\n"}],
    )
    hot = hot_files([change for changes in made.values() for change in changes])
    assert list(hot.items()) == [("src/cart.py", 3), ("src/other.py", 2)]
