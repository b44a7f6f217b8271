"""The flags of `replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def add_replay(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Add the command."""
    replay = command(
        "replay",
        "Play a recording of a terminal: seek, search, step, markers, live ones too.\n"
        "Of a file (asciicast v1, v2 or v3, also .gz), or of the newest recording of an\n"
        "agent of this repository's runs. With --format: print one moment of it, as it\n"
        "was on the screen; --format svg makes a picture.",
        "  selftest-tui replay demo.cast\n"
        "  selftest-tui replay demo.cast --at 2:14\n"
        "  selftest-tui replay demo.cast --at 134 --format text\n"
        "  selftest-tui replay st-7f-login --format svg > end.svg",
    )
    replay.add_argument("recording", nargs="?", metavar="RECORDING", help="a file, or the name of an agent")
    replay.add_argument("--at", metavar="TIME", help="seconds, M:SS or H:MM:SS; printed: also 50%%, -30; default: end")
    replay.add_argument("--format", choices=("text", "ansi", "svg"), help="print that moment instead of playing")
