"""Record screenshots/tour.cast: the demo's run, a recording, the review, its verification, decisions, and publishing.

It drives `selftest-tui demo` in a pseudo-terminal with keys, as a person would, and shortens pauses to two seconds.
screenshots/tour.svg shows some of its frames, one after the other. The demo needs mngr and tmux.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "screenshots"
COLUMNS, ROWS = 120, 34
LONGEST_PAUSE = 2.0
SAMPLE = 0.5
FRAMES = 9
SECONDS_OF_A_FRAME = 2.5
STEPS = (
    ("✓", "", 12.0), ("", "down down down", 2.0), ("all tests have ended|conductor ended|ended", "", 90.0),
    ("", "end", 2.0), ("", "home down", 2.0), ("", "r", 3.0), ("", "escape", 1.5), ("", "v", 6.0), ("", "v", 2.0),
    ("", "y", 25.0), ("", "y y y", 3.0), ("", "3", 3.0), ("", "6", 3.0), ("", "1", 2.0), ("", "P enter", 3.0),
    ("", "y", 5.0), ("", "q", 2.0), ("", "y", 3.0),
)  # fmt: skip
"""Steps: a pattern to wait for (empty: none), the keys to press before, and the most seconds to wait."""
KEYS = {"down": "\x1b[B", "home": "\x1b[H", "end": "\x1b[F", "escape": "\x1b", "enter": "\r"}


def main() -> int:
    """Record, and draw."""
    sys.path.insert(0, str(ROOT / "tests"))
    from pseudo_terminal import Terminal

    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": folder, "TERM": "xterm-256color",
            "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp",
        }  # fmt: skip
        argv = [str(Path(sys.executable).with_name("selftest-tui")), "demo"]
        with Terminal(argv, cwd=Path(folder), env=environ, rows=ROWS, columns=COLUMNS) as terminal:
            for pattern, keys, seconds in STEPS:
                for key in keys.split():
                    terminal.press(KEYS.get(key, key))
                    time.sleep(0.7)  # the pace at which a viewer can follow
                until = time.monotonic() + seconds
                while time.monotonic() < until and not (pattern and re.search(pattern, terminal.text)):
                    time.sleep(0.2)  # a terminal has no event for "the screen changed"
            pieces = terminal.pieces()
    path = FOLDER / "tour.cast"
    seconds = _write(path, pieces)
    _draw(path, seconds)
    return 0


def _write(path: Path, pieces: Sequence[tuple[float, str]]) -> float:
    """Write the rows that changed, every half second at most: a screen that animates prints megabytes."""
    from selftest_recorder.cast.events import Header
    from selftest_recorder.cast.writer import write_cast
    from selftest_recorder.terminal.emulator import open_terminal
    from selftest_tui.replay.frames import ansi_lines

    path.unlink(missing_ok=True)
    terminal = open_terminal(COLUMNS, ROWS)
    at, before, shown, events = 0.0, pieces[0][0], -1.0, []
    for number, (then, data) in enumerate(pieces):
        at, before = at + min(then - before, LONGEST_PAUSE), then
        terminal.feed(data.encode("utf-8", "replace"))
        if at - shown < SAMPLE and number + 1 < len(pieces):
            continue
        update = terminal.read_update()
        rows = zip(update.rows, ansi_lines(list(update.rows.values())), strict=True)
        drawn = "".join(f"\x1b[{row + 1};1H{line}\x1b[K" for row, line in rows)
        if drawn:
            shown = at
            events.append((round(at, 3), "o", drawn.replace("/tmp/selftest-demo", "/home/me/demo")))
    write_cast(path, Header(2, COLUMNS, ROWS, title="selftest-tui demo"), events)
    return at


def _draw(path: Path, seconds: float) -> None:
    """Write one SVG in which frames of the recording follow each other."""
    frames = []
    program = Path(sys.executable).with_name("selftest-tui")
    for number in range(FRAMES):
        at = seconds * (number + 0.8) / FRAMES
        done = subprocess.run(
            [program, "replay", path, "--at", f"{at:.1f}", "--format", "svg"],
            capture_output=True,
            check=True,
            text=True,
        )
        frames.append(re.sub(r"^<\?xml[^>]*>\s*", "", done.stdout))
    whole = FRAMES * SECONDS_OF_A_FRAME
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', frames[0])
    width, height = size.groups() if size is not None else ("1000", "600")
    share = 100 / FRAMES
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>.f{{visibility:hidden;animation:a {whole}s step-end infinite}}"
        f"@keyframes a{{0%{{visibility:visible}}{share:.3f}%{{visibility:hidden}}}}</style>",
    ]
    for number, frame in enumerate(frames):
        lines.append(f'<g class="f" style="animation-delay:{number * SECONDS_OF_A_FRAME}s">{frame}</g>')
    (FOLDER / "tour.svg").write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
