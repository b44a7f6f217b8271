"""Files of other projects that are part of every report: unchanged, and with their licence."""

from __future__ import annotations

import hashlib
import re

from worlds import ROOT

PLAYER = ROOT / "recorder" / "selftest_recorder" / "report" / "assets" / "asciinema-player"


def test_the_player_is_the_one_that_was_published() -> None:
    listed = dict(re.findall(r"^\| `(.+)` \| `([0-9a-f]{64})` \|$", (PLAYER / "README.md").read_text(), re.MULTILINE))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in PLAYER.iterdir()}
    found.pop("README.md")
    assert found == listed
    assert set(listed) == {"asciinema-player.css", "asciinema-player.min.js", "LICENSE"}
    assert "Apache License" in (PLAYER / "LICENSE").read_text()
