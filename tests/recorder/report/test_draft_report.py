"""The report of a draft: what was proposed, what was decided, and the findings of agents and people."""

from __future__ import annotations

from html import unescape

from core.run.shop import FILES, commit
from draft_scenes import a_drafted_run, outcome_of
from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.session import DraftSession
from selftest_recorder.report.writer import write_run_report
from worlds import World, a_world

BASE = FILES["tutorial.sh"]
HOSTILE = "<script>alert(1)</script>\x1b[31m [x](javascript:1)"


def draft_report(world: World) -> tuple[str, str]:
    """The first page and the summary of a draft's report."""
    repository = world.make_repository()
    (repository / "tutorial.sh").write_text(BASE)
    commit(world, "A shop")
    text = BASE.replace("shop tax 256", f"shop tax 256 --round\n\necho '{HOSTILE}'")
    folder = a_drafted_run(
        world, {"Adding": text}, {"Adding": outcome_of(f"confusing because {HOSTILE}")}, tutorial=BASE
    )
    with DraftSession.open(folder, world.environment) as session:
        edited, new = session.draft.blocks
        session.decide((edited.id,), BlockDecision.DROP)
        session.find(new.id, "confusing because echo needs quotes")
    told: list[str] = []
    write_run_report(folder, world.environment, told.append)
    assert told == []
    report = folder.path / "report"
    return (report / "index.html").read_text(), (report / "summary.md").read_text()


def test_a_draft_is_reported_with_its_findings() -> None:
    with a_world() as world:
        page, summary = draft_report(world)
    assert "Findings about the interface" in page
    assert "confusing because echo needs quotes" in page
    assert "confusing because echo needs quotes" in summary
    shown = unescape(page)
    assert "shop tax 256 --round" in shown
    assert page.count("<td>drop</td>") == 1
    assert page.count("<td>undecided</td>") == 1
    assert "<script>alert" not in page
    assert "\x1b" not in page + summary
