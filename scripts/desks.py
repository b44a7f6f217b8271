"""Verify the same three branches on desks as people have them: a true fix, a culprit, and a claim that is a lie.

    make desks [ARGS="--only uv --json"]

Each desk is a home of its own with a repository and an environment (`tests/core/desks/layouts.py`). A row is right
where all three verdicts are, or where all are unknown and say which command mends that. Prints a table; ends with 1
where a row is wrong. As root, another user is taken where that may read our Python: most people are no root.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.desks.layouts import LAYOUTS, RIGHT, UNKNOWN, Desk, Judged, judge  # noqa: E402 -- from where the tests are

USER = 64_321
"""The id of the user that root becomes: it needs no name."""
COLUMNS = ("a true fix", "a culprit", "a claim")


def try_desk(name: str, folder: str) -> tuple[Judged, bool, float]:
    """Lay one desk and verify on it. Returns what was found, whether that is right, and the seconds."""
    began = time.monotonic()
    place = Path(folder) / f"desk-{list(LAYOUTS).index(name)}"
    place.mkdir(mode=0o700)
    desk = Desk(place)
    try:
        LAYOUTS[name][0](desk)
        found = judge(desk)
    except Exception:
        found = Judged(("no answer",) * 3, traceback.format_exc())
    is_right = found.verdicts == (UNKNOWN if desk.expected else RIGHT) and desk.expected in found.said
    shutil.rmtree(place, ignore_errors=True)
    return found, is_right, time.monotonic() - began


def may_be_another_user() -> bool:
    """True where root can become a user who may read our Python, this checkout and its packages."""
    if os.geteuid():
        return False
    argv = [sys.executable, "-c", f"import pytest; open({str(Path(__file__))!r})"]
    try:
        done = subprocess.run(argv, user=USER, group=USER, extra_groups=[], capture_output=True, check=False)
    except PermissionError:
        return False
    return done.returncode == 0


def main() -> int:
    """Try all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="desks of which the name holds this")
    parser.add_argument("--json", action="store_true", help="a document for programs in place of the table")
    parser.add_argument("--jobs", type=int, default=2, help="desks at once")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="desks-", ignore_cleanup_errors=True) as folder:
        if may_be_another_user():
            os.chown(folder, USER, USER)
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
        os.environ |= {"HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache"}
        names = [name for name in LAYOUTS if given.only in name]
        with ProcessPoolExecutor(given.jobs) as pool:
            rows = dict(zip(names, pool.map(try_desk, names, [folder] * len(names)), strict=True))
        who = "root" if not os.geteuid() else f"the user {os.geteuid()}"
    wrong = [name for name, (_, is_right, _) in rows.items() if not is_right]
    if given.json:
        found = {name: {"verdicts": one.verdicts, "said": one.said, "right": ok} for name, (one, ok, _) in rows.items()}
        print(json.dumps({"as": who, "desks": found}, indent=1))
        return 1 if wrong else 0
    print(f"{'desk':<48}" + "".join(f"{column:<16}" for column in COLUMNS) + "seconds")
    for name, (one, is_right, seconds) in rows.items():
        verdicts = "".join(f"{verdict:<16}" for verdict in one.verdicts)
        print(f"{name:<48}{verdicts}{seconds:5.1f}  {'' if is_right else 'WRONG'}".rstrip())
    for name, (_, stand_in) in LAYOUTS.items():
        if name in rows and stand_in:
            print(f"stand-in: {name}: {stand_in}")
    for name in wrong:
        print(f"WRONG {name}:\n{rows[name][0].said[-3000:]}")
    print(f"{len(rows)} desks as {who}, {len(wrong)} wrong, in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
