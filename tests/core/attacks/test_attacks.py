"""What `make attacks` counts on: cases that are what they say, a world that notices, and a table that is not stale."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from core.attacks import host, others
from core.attacks.all_cases import CASES, THEMES
from core.attacks.cases import BASE, PRODUCT, Case
from core.attacks.generator import ALL, generated
from core.attacks.host import ATTEMPTS, SET_UPS, planted_world
from core.attacks.tried import OPEN, attack
from core.review.test_malformed import MALFORMED
from core.verify.desks import SANDBOX

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "verification.md"
needs_sandbox = pytest.mark.skipif(not SANDBOX.is_isolated, reason=f"no sandbox here: {SANDBOX.reason}")


def test_each_case_has_a_name_of_its_own_and_changes_something() -> None:
    assert [name for name, times in Counter(one.name for one in CASES).items() if times > 1] == []
    for case in CASES:
        assert any(case.base.get(path) != text for path, text in case.files.items()), case.name


def test_the_generator_gives_the_same_for_a_seed_and_nothing_twice() -> None:
    made = generated(200, 3)
    assert [one.name for one in made] == [one.name for one in generated(200, 3)]
    assert len({one.name for one in made}) == 200
    assert [one.name for one in made] != [one.name for one in generated(200, 4)]
    assert len(generated(10**6, 0)) == len(ALL)
    for one in made:
        for path, text in (*one.base.items(), *one.files.items()):
            if path.endswith(".py"):
                compile(text or "", path, "exec")


def test_the_table_of_the_documentation_counts_the_cases_that_there_are() -> None:
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", text.partition("<!-- attacks -->")[2], re.MULTILINE)
    counts = Counter(one.theme for one in CASES)
    counts |= {f"host: {theme}": len(found) for theme, found in ATTEMPTS.items()}
    counts |= {"host: set-up": len(SET_UPS), "host: probe": 1, "washers": len(others.WASHERS)}
    counts["one bad branch"] = len(MALFORMED) + 1
    told = {theme: int(count) for theme, count in rows}
    assert list(told) == THEMES
    assert {theme: count for theme, count in told.items() if theme != "generated"} == dict(counts)
    assert told["generated"] > 0


@needs_sandbox
def test_a_branch_that_fixes_what_it_says_counts_as_open_were_it_a_forgery() -> None:
    fixed = Case("fixed", "product", {"calc.py": PRODUCT.replace("a - b", "a + b")}, base=BASE)
    how, said = attack(fixed)
    assert (how, "published as passed" in said) == (OPEN, True)


@needs_sandbox
def test_a_world_notices_what_was_written_and_an_attempt_that_works_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with planted_world() as world:
        assert world.damage() == []
        (world.folder / "reached").touch()
        (world.folder / "person" / ".ssh" / "id_rsa").write_text("other")
        assert world.damage() == ["a file was written outside", "person/.ssh/id_rsa was changed"]
    monkeypatch.setitem(host.ATTEMPTS, "made up", {"always": "return True", "never": "return False"})
    assert host.reach_by_tests("made up") == {"always": "reached: the test is green"}
