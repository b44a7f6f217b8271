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
from selftest_tui.app import FleetApp

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
    "selftest_tui.screens.acting", "selftest_tui.screens.dialogs", "selftest_tui.screens.fleet_keys",
    "selftest_tui.screens.help", "selftest_tui.screens.replay", "selftest_tui.screens.review",
    "selftest_tui.screens.run", "selftest_tui.screens.start", "selftest_tui.screens.tutorial",
    "selftest_tui.widgets.agent_messages", "selftest_tui.widgets.details", "selftest_tui.widgets.explain",
    "selftest_tui.palette", "selftest_tui.diff_colours", "selftest_tui.markdown_lines",
)  # fmt: skip
WORK = (
    "selftest_core.fleet", "selftest_core.probe", "selftest_core.remembered", "selftest_core.shapes",
    "selftest_core.tools.git", "selftest_core.tools.mngr", "selftest_core.tools.process", "selftest_core.tools.tmux",
    "selftest_core.watching", "selftest_core.run", "selftest_core.integration", "selftest_recorder",
)  # fmt: skip
HEAVY = ("git", "jinja2", "libtmux", "modal", "msgspec", "pydantic", "pyghostty", "pytest", "rapidfuzz", "watchfiles")


def test_the_first_frame_waits_for_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    answer = tmp_path / "loaded"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(answer)], cwd="/", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(answer.read_text(encoding="utf-8").split())
    assert {"selftest_tui.screens.fleet", "selftest_tui.widgets.agent_table", "selftest_core.view"} <= loaded
    assert sorted(loaded.intersection((*SHOWN_LATER, *WORK, *HEAVY))) == []
