"""`selftest-tui draft`: what cannot work is refused before an agent costs anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.run.shop import FILES, commit, make_shop
from draft_scenes import a_drafted_run, outcome_of
from worlds import BIN, World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def shop() -> Iterator[World]:
    """A shop on an mngr that answers at once, with decisions that cannot be read."""
    with a_world() as world:
        make_shop(world)
        (world.repository / "wrong.json").write_text('{"blocks": {"x": "perhaps"}}')
        world.run(["git", "switch", "-q", "-c", "mine"])
        world.run(["git", "branch", "other"])
        yield world


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--batch", "--onto", "mine"], 4, "mine is checked out"),
        (["--batch", "--onto", "other"], 4, "is not from this review"),
        (["--batch", "--onto", "a..b"], 2, "not a valid branch name"),
        (["--batch", "--decisions", "wrong.json"], 2, "'perhaps' is not a decision"),
        (["--batch", "--decisions", "gone.json"], 2, "Cannot read the decisions"),
        (["--onto", "tour"], 2, "need --batch"),
        (["--batch", "--run", "x", "Adding"], 2, "takes neither headings"),
        (["Adding", "--batch", "--run"], 2, "takes neither headings"),
        (["--batch", "--run"], 2, "There is no draft in this repository"),
        (["--dry-run", "--tutorial", "agents"], 2, "agents is no file"),
        (["--dry-run", "--tutorial", "gone.sh"], 2, "gone.sh does not exist"),
        (["--json"], 2, "--json is for --dry-run"),
    ],
)
def test_what_cannot_work_is_refused_before_it_costs(shop: World, words: list[str], status: int, said: str) -> None:
    done = shop.run([BIN / "selftest-tui", "draft", *words], check=False)

    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert not (shop.repository / ".selftest").exists()


def test_a_run_of_testers_is_no_draft_and_a_draft_can_be_read_while_it_goes_on() -> None:
    with a_world() as world:
        repository = world.make_repository()
        (repository / "tutorial.sh").write_text(FILES["tutorial.sh"])
        commit(world, "A shop")
        folder = a_drafted_run(
            world, {}, {"Adding": outcome_of()}, tutorial=FILES["tutorial.sh"], open_headings=("Adding",)
        )
        words: list[str | Path] = [BIN / "selftest-tui", "draft", "--batch", "--run"]

        done = world.run(words)

        (heading,) = json.loads(done.stdout)["headings"]
        assert (heading["state"], heading["blocks"]) == ("open", [])
        plan = json.loads((folder.path / "plan.json").read_text())
        del plan["role"]  # a run of before there were roles
        (folder.path / "plan.json").write_text(json.dumps(plan))
        done = world.run([*words, folder.run], check=False)
        assert done.returncode == 2
        assert "is no draft" in done.stderr
