"""The offer says all that a person must know before the yes, in words and in JSON, and shows hostile names as text."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from core.run.rehearsals import a_plan
from selftest_core.git.command import Place
from selftest_core.run.plan.estimates import Typical, estimate, span
from selftest_core.run.plan.offer import (
    Offer,
    OfferedTest,
    Uncollected,
    amount,
    offer_parts,
    offered_tests,
)
from selftest_core.run.plan.programs import pytest_commands
from selftest_core.run.plan.source import Size, Source
from selftest_core.schema.run_plan import OfferDocument, offer_document
from selftest_tui.cli.runs.run import shown_lines

if TYPE_CHECKING:
    from pathlib import Path

SIZE = Size(120, 4_000_000, 900_000)


def an_offer(count: int = 3, picked: dict[str, tuple[str, ...]] | None = None, **changes: Any) -> Offer:
    offered = {field.name for field in dataclasses.fields(Offer)}
    plan = a_plan(count, **{name: value for name, value in changes.items() if name not in offered})
    offer = Offer(
        plan=plan,
        estimates=estimate(plan, SIZE, Typical(300.0, "the median of 9 agents of run r")),
        tests=offered_tests(plan, picked or {}),
        uncollected=(),
        base_name="HEAD",
        affected_by="",
        found=count,
        deselected=0,
        free=12_000_000_000,
    )
    return dataclasses.replace(offer, **{name: value for name, value in changes.items() if name in offered})


def said(offer: Offer) -> dict[str, str]:
    return {part.word: "\n".join(part.lines) for part in offer_parts(offer)}


def test_it_says_who_works_where_on_what_and_for_how_much() -> None:
    parts = said(
        an_offer(
            provider="modal", agent_type="claude", agent_command=None, env_names=("TOKEN",), usd_per_agent=2.0,
            budget_usd=5.0, create_args=("-b", "timeout=900"), max_running=2, left_out=("a.txt", "b/"),
            warnings=("this is a shallow clone",), uncollected=(Uncollected("tests/t.py", "ImportError: no x"),),
        )
    )  # fmt: skip

    assert "/nowhere at aaaaaaaaaaaa (HEAD)" in parts["from"]
    assert "3 tests" in parts["tests"]
    assert "3  tests/test_all.py" in parts["tests"]
    assert "claude on modal" in parts["agents"]
    assert "mngr create … -b timeout=900" in parts["agents"]
    assert "2 at once, at most 1 launched per second, 4 min each" in parts["limits"]
    assert "when 5 of the last 10 fail with the same error: launching continues" in parts["limits"]
    assert "tries of a launch" not in parts["limits"]
    other = said(an_offer(launch_retries=0, lost_retries=2, retry_pause=9.0))["limits"]
    assert "tries of a launch: 1, agents of a test whose host goes: 3; 9 s before the next one" in other
    assert "about 10 min" in parts["time"]
    assert "the median of 9 agents of run r" in parts["time"]
    assert "about 4.00 USD" in parts["cost"]
    assert "launching stops after 2, at the budget of 5.00 USD" in parts["cost"]
    assert "12 GB are free" in parts["disk"]
    assert "on each host" in parts["disk"]
    assert "with its history, and the prompts → modal" in parts["sent out"]
    assert "→ Anthropic" in parts["sent out"]
    assert "the values of TOKEN → the agents on modal" in parts["sent out"]
    assert parts["env"].startswith("TOKEN: the values go to each agent and into mngr's files about it")
    assert "1 file cannot be collected" in parts["broken"]
    assert "ImportError: no x" in parts["broken"]
    assert "2 paths changed or untracked" in parts["left out"]
    assert parts["note"] == "this is a shallow clone"


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    offer = an_offer()

    assert said(offer)["cost"].startswith("unknown")
    assert "none of your variables" in said(offer)["env"]
    assert "are free" not in said(dataclasses.replace(offer, free=None))["disk"]


def test_each_picked_test_is_shown_with_its_reasons() -> None:
    names = [test.node_id for test in a_plan(2).tests]
    offer = an_offer(2, {names[0]: ("a.py changed", "it cites a block")}, affected_by="main", found=40)

    tests = said(offer)["tests"]

    assert tests.startswith("2 of 40 tests: affected by changes since main")
    assert f"  {names[0]}\n    a.py changed\n    it cites a block" in tests


def test_a_thousand_tests_do_not_make_a_thousand_lines() -> None:
    tests = tuple(OfferedTest(f"tests/test_{n}.py::test", ("changed",), 0) for n in range(1000))
    whole = an_offer(1000, tests=tests, left_out=tuple(f"f{n}" for n in range(1000)))

    assert sum(len(part.lines) for part in offer_parts(whole)) < 80
    assert "and 970 more files" in said(whole)["tests"]
    assert "and 990 more" in said(whole)["left out"]
    assert sum(len(part.lines) for part in offer_parts(dataclasses.replace(whole, affected_by="main"))) < 500


@pytest.mark.parametrize("width", [40, 80, 120])
def test_nothing_hostile_is_obeyed_and_nothing_is_wider_than_the_terminal(width: int) -> None:
    evil = "tests/\x1b[31mred\x1b]0;title\x07[bold]x[/bold]\u202e漢字漢字 " + "y" * 300 + "\nsecond line"
    offer = an_offer(
        1, tests=(OfferedTest(evil, (evil,), 1),), left_out=(evil,), warnings=(evil,), affected_by=evil,
        uncollected=(Uncollected(evil, evil),), provider=evil,
    )  # fmt: skip

    lines = shown_lines(offer, width)

    assert max(cell_len(line) for line in lines) <= width
    assert all(line.isprintable() for line in lines)
    assert any("[bold]x[/bold]" in line.replace(" ", "") for line in lines) or width == 40


def test_the_document_holds_what_the_words_say() -> None:
    offer = an_offer(usd_per_agent=1.0, left_out=("caf\udce9",), env_names=("TOKEN",))

    document = offer_document(offer)

    printed = json.loads(document.model_dump_json())
    assert OfferDocument.model_validate(printed) == document
    assert [test["test"] for test in printed["tests"]] == [test.node_id for test in offer.plan.tests]
    assert printed["money"]["usd"] == 3.0
    assert printed["left_out"] == ["caf\N{REPLACEMENT CHARACTER}"]
    assert printed["leaves"][-1] == {"what": "the values of TOKEN", "to": "the agents on this machine"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (3540, "59 min"), (3600, "1 h"), (7500, "2 h 5 min")],
)
def test_spans_are_as_exact_as_an_estimate(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (5_000_000, "5 MB"), (3.2e12, "3.2 TB")]
)
def test_sizes_are_in_the_unit_that_fits(size: float, words: str) -> None:
    assert amount(size) == words


@pytest.mark.parametrize(
    ("editable", "source", "configured", "warns"),
    [
        (True, "src", (), "src"),
        (True, "", (), ""),  # `python -m pytest` looks into the copy first
        (True, "", ("ENVIRONMENT/bin/pytest",), "."),
        (True, "lib", ("ENVIRONMENT/bin/pytest",), "lib"),  # a .pth names the folder
        (False, "src", (), ""),
        (None, "src", (), ""),
    ],
)
def test_an_environment_that_imports_the_persons_own_checkout_is_told(
    tmp_path: Path, editable: bool | None, source: str, configured: tuple[str, ...], warns: str
) -> None:
    (tmp_path / source).mkdir(exist_ok=True)
    about = tmp_path / ".venv" / "lib" / "python3.13" / "site-packages" / "shop-1.dist-info"
    about.mkdir(parents=True)
    if editable is not None:
        said_by_pip = {"url": tmp_path.as_uri(), "dir_info": {"editable": editable}}
        (about / "direct_url.json").write_text(json.dumps(said_by_pip))
    if source == "lib":
        (about.parent / "shop.pth").write_text(f"import site\n{tmp_path / 'lib'}\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to("/bin/sh")
    here = Source(Place(tmp_path / ".git", tmp_path), tmp_path / ".git", "1" * 40, "1" * 40, SIZE, (), ())
    command = tuple(word.replace("ENVIRONMENT", str(tmp_path / ".venv")) for word in configured)

    found = pytest_commands(command, here, {"PATH": "/usr/bin:/bin"}, is_local=True)

    assert found.agents == (command or (str(python), "-m", "pytest"))
    says = f"agents would test {tmp_path / warns}, not their copy"
    assert [says in note for note in found.notes] == [True] * bool(warns), found.notes
    # An environment of each copy's own has no such trouble.
    own = pytest_commands((), here, {"PATH": "/usr/bin:/bin"}, is_local=True, has_own=True)
    assert (own.agents, own.notes) == ((".venv/bin/python", "-m", "pytest"), ())


def test_a_path_of_the_persons_checkout_in_the_environment_is_told(tmp_path: Path) -> None:
    here = Source(Place(tmp_path / ".git", tmp_path), tmp_path / ".git", "1" * 40, "1" * 40, SIZE, (), ())
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"/elsewhere:{tmp_path / 'src'}"}
    (note,) = pytest_commands(("python3", "-m", "pytest"), here, environ, is_local=True).notes
    assert note.startswith(f"agents would test {tmp_path / 'src'}, not their copy: PYTHONPATH")


def test_a_smoke_agent_is_the_first_step_of_the_plan() -> None:
    offer = an_offer(provider="local,modal", agent_type="claude", agent_command=None, smoke=("local", "modal"))
    words = [part.word for part in offer_parts(offer)]
    assert words.index("smoke") < words.index("tests")
    assert "2 smoke agents (claude) on this machine, modal" in said(offer)["smoke"]
    assert "--no-smoke" in said(offer)["smoke"]
    document = offer_document(offer).model_dump(mode="json")
    assert document["smoke"] == [{"provider": "local", "type": "claude"}, {"provider": "modal", "type": "claude"}]
    assert "smoke" not in said(an_offer())
