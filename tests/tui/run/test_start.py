"""What is loaded when the first frame is painted: nothing that the frame does not show."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, sys
from pathlib import Path
from selftest_tui.app.app import FleetApp

class Watch:  # it begins once the first frame is painted
    def run(self):
        Path(sys.argv[1]).write_text(" ".join(sys.modules))
        app.call_from_thread(app.exit)
    def stop(self): pass
    def refresh(self, lane=None): pass

app = FleetApp(lambda publish: Watch(), dict(os.environ), folder=Path("/"), place="here")
app.run(headless=True)
"""
SHOWN_LATER = (
    "selftest_tui.fleet.acting", "selftest_tui.shared.dialogs.dialogs", "selftest_tui.shared.dialogs.choose",
    "selftest_tui.shared.dialogs.help", "selftest_tui.replay.screen", "selftest_tui.review.screen",
    "selftest_tui.run.screen", "selftest_tui.run.start", "selftest_tui.tutorial.screen",
    "selftest_tui.fleet.pane.agent_messages", "selftest_tui.fleet.pane.details", "selftest_tui.fleet.pane.explain",
    "selftest_tui.app.palette", "selftest_core.git.source_colours", "selftest_tui.shared.markdown_lines",
)  # fmt: skip
WORK = (
    "selftest_core.fleet.fold", "selftest_core.fleet.sources.probe", "selftest_core.fleet.watch.fleet_cache",
    "selftest_core.schema.model",
    "selftest_core.git.command", "selftest_core.tools.mngr", "selftest_core.tools.process", "selftest_core.tools.tmux",
    "selftest_core.fleet.watch.poller", "selftest_core.run", "selftest_core.review", "selftest_recorder",
)  # fmt: skip
HEAVY = ("git", "jinja2", "libtmux", "modal", "msgspec", "pydantic", "pyghostty", "pytest", "rapidfuzz", "watchfiles")


def test_the_first_frame_waits_for_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    answer = tmp_path / "loaded"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(answer)], cwd="/", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(answer.read_text(encoding="utf-8").split())
    assert {"selftest_tui.fleet.screen", "selftest_tui.fleet.agent_table", "selftest_core.fleet.view"} <= loaded
    assert sorted(loaded.intersection((*SHOWN_LATER, *WORK, *HEAVY))) == []
