"""Attack verification: forged branches, what hostile code tries against the host, and honest branches beside them.

    make attacks [ARGS="--all --more 500 --seed 7 --only product --json"]

Each forged branch is reviewed alone, by the unattended policy of docs/examples/selftest-decisions.json with
`--require-verified`, the whole suite, in the sandbox. It prints a table, and ends with 1 where a forged branch was
published or shown as passed without a mark that asks a person, where an attempt reached the host, or where more than
1 % of honest branches were asked about or one was accused. Undecidable branches, which `docs/verification.md` names,
are counted apart. Started by root, it tries some again as an ordinary user, who is made for it and removed.

Without `--all` it tries a share, drawn by the seed, that fits into five minutes on two cores. `--all --write` writes
the table of `docs/verification.md`; a test compares its numbers of cases.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.attacks import honest, host, others  # noqa: E402 -- the tests' own cases, from where they are
from core.attacks.all_cases import CASES, THEMES  # noqa: E402
from core.attacks.generator import generated  # noqa: E402
from core.attacks.tried import ASKS, HELD, OPEN, UNDECIDABLE, attack  # noqa: E402
from core.review.test_malformed import MALFORMED  # noqa: E402
from selftest_core.verify.sandbox import probe  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.attacks.cases import Case

DOCUMENT = ROOT / "docs" / "verification.md"
WORDS = (HELD, ASKS, UNDECIDABLE, OPEN)
SHARE = 60
"""Forged branches that are tried without `--all`."""
MORE = 40
"""Generated ones; `--all` tries ten times as many."""
USERS_SHARE = 10
"""Forged branches that are tried again as an ordinary user, with all that is tried against the host."""
USER = "selftest-attacks"
ASKED_AT_MOST = 1.0
"""Percent of honest branches."""

type Row = tuple[str, str, str, str]
"""Theme, name, how it ended, and what a person reads."""


def try_case(case: Case) -> list[Row]:
    """Try a forged branch."""
    try:
        how, said = attack(case)
    except Exception as error:  # a branch that ends the review with an error has won, too
        how, said = OPEN, f"the review ended: {type(error).__name__}: {error}"
    return [(case.theme, case.name, how, f"{said} [{case.layer}]" if how == OPEN and case.layer else said)]


def try_host(theme: str) -> list[Row]:
    """Try to reach the host by tests."""
    found = host.reach_by_tests(theme)
    rows = [
        (f"host: {theme}", name, OPEN if name in found else HELD, found.get(name, "")) for name in host.ATTEMPTS[theme]
    ]
    return rows + [
        (f"host: {theme}", name, OPEN, said) for name, said in found.items() if name not in host.ATTEMPTS[theme]
    ]


def try_set_up(name: str) -> list[Row]:
    """Try to reach the host, or other changes, by a set-up."""
    found = host.reach_by_set_up(name)
    return [("host: set-up", name, OPEN if found else HELD, found.get(name, ""))]


def try_washer(name: str) -> list[Row]:
    """Try to wash others."""
    found = others.wash(name)
    said = "; ".join(f"{who}: {what}" for who, what in found.items())
    return [("washers", f"twelve branches, one washes by {name}", OPEN if found else HELD, said)]


def try_beside(name: str) -> list[Row]:
    """Try whether one bad branch keeps a good one from being published."""
    try:
        found = others.flood() if name == "floods" else others.beside_malformed(name)
    except Exception as error:
        found = {"the review ended": f"{type(error).__name__}: {error}"}
    said = "; ".join(f"{who}: {what}" for who, what in found.items())
    return [("one bad branch", name, OPEN if found else HELD, said)]


def try_probe(_none: str) -> list[Row]:
    """Try the probe that every verification begins with."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        _, could = probe({"PATH": os.environ["PATH"], "HOME": name})
    said = "the probe did not run" if could is None else ", ".join(could)
    return [("host: probe", "the probe", OPEN if said else HELD, said)]


def work_in(folder: str) -> None:
    """Let a process make its temporary files there."""
    tempfile.tempdir = folder


def main() -> int:
    """Run what is asked for, and print the table."""
    given = _arguments()
    began = time.monotonic()
    dice = random.Random(given.seed)
    share, more = (USERS_SHARE, 0) if given.is_user else (SHARE, MORE)
    cases = [*CASES] if given.all else dice.sample(CASES, share)
    more = given.more if given.more is not None else more * (10 if given.all else 1)
    cases += generated(more, given.seed)
    cases = [one for one in cases if given.only in one.name or given.only in one.theme]
    jobs: list[tuple[Callable[[Any], list[Row]], object]] = []
    if not given.only or given.only in "host":
        jobs += [(try_host, theme) for theme in (host.BY_USER if given.is_user else host.ATTEMPTS)]
        jobs += [] if given.is_user else [(try_set_up, name) for name in host.SET_UPS]
        jobs += [(try_probe, "")]
    if not given.is_user and (not given.only or given.only in "washers"):
        jobs += [(try_washer, name) for name in (others.WASHERS if given.all else dice.sample(list(others.WASHERS), 2))]
        beside = [*MALFORMED, "floods"]
        jobs += [(try_beside, name) for name in (beside if given.all else dice.sample(beside[:-1], 2))]
    # Cases of one base together: its results are kept in the process that has them.
    jobs += [(try_case, case) for case in sorted(cases, key=lambda one: repr(one.base))]
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="attacks-") as folder,
        ProcessPoolExecutor(2, initializer=work_in, initargs=(folder,)) as pool,
    ):
        futures = [pool.submit(function, what) for function, what in jobs]
        kinds = (
            []
            if given.only or given.is_user
            else [
                pool.submit(honest.known_lines, 10, 50, 1 if given.all else 0),
                pool.submit(honest.known_lines, 1, 20, 1),
                pool.submit(honest.other_fixes),
            ]
        )
        past = pool.submit(honest.history, ROOT, 500 if given.all else 60, given.seed) if kinds else None
        for future in futures:
            rows += future.result()
        found = [future.result() for future in kinds]
        own, editing = past.result() if past else (honest.Honest(), honest.Honest())
    as_user = [] if given.only or given.is_user else rows_of_user(given)
    is_met = report(rows, as_user, found, own, editing, given, time.monotonic() - began)
    return 0 if is_met else 1


def report(
    rows: Sequence[Row],
    as_user: Sequence[Row],
    found: Sequence[honest.Honest],
    own: honest.Honest,
    editing: honest.Honest,
    given: argparse.Namespace,
    seconds: float,
) -> bool:
    """Print what was found; False where a figure is not met."""
    tried, asked, accused = honest.whole(found)
    accused = [*accused, *own.accused]
    percent = 100 * asked / tried if tried else 0.0
    opened = [row for row in (*rows, *as_user) if row[2] == OPEN]
    is_met = not opened and percent <= ASKED_AT_MOST and not accused
    if given.json:
        print(json.dumps({"rows": rows, "user": as_user, "honest": [tried, asked, accused], "seconds": seconds}))
        return is_met
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for theme, _, how, _ in rows:
        counts[theme][how] += 1
    print(f"{'':<16}{'tried':>7}" + "".join(f"{word:>15}" for word in WORDS))
    for theme, count in counts.items():
        print(f"{theme:<16}{count.total():>7}" + "".join(f"{count[word]:>15}" for word in WORDS))
    for _, name, _, said in opened:
        print(f"OPEN {name}: {said[:300]}")
    print(
        f"honest: {tried} branches, {sum(one.verified for one in found)} of them verified; asked about {asked} "
        f"({percent:.1f} %), accused {len(accused)}"
    )
    for why, times in sum((one.asked for one in found), Counter[str]()).most_common(10):
        print(f"  asked {times}: {why}")
    for name in accused:
        print(f"  ACCUSED {name}")
    # No limit: a project that is about pytest speaks of it.
    print(f"commits of this project that edit no test: {own.tried}, asked about {own.branches_asked}")
    print(f"commits of this project that edit tests: {editing.tried}, asked about {editing.branches_asked}")
    user = Counter(how for _, _, how, _ in as_user)
    print(f"as an ordinary user: {len(as_user)} tried, {user[OPEN]} open")
    print(f"{len(rows) + len(as_user)} attempts in {seconds:.0f} s")
    if given.write:
        asked_of_own = f"{own.branches_asked} of {own.tried} that edit no test, "
        asked_of_own += f"{editing.branches_asked} of {editing.tried} that edit tests"
        write_table(counts, tried, asked, len(accused), asked_of_own)
    return is_met


def write_table(counts: dict[str, Counter[str]], tried: int, asked: int, accused: int, asked_of_own: str) -> None:
    """Write the table of the documentation anew."""
    lines = ["| theme | tried | held | asks a person | undecidable | open |", "| --- | --: | --: | --: | --: | --: |"]
    for theme in THEMES:
        count = counts[theme]
        lines.append(f"| {theme} | {count.total()} | " + " | ".join(str(count[word]) for word in WORDS) + " |")
    lines.append(f"\nOf {tried} honest branches {asked} asked a person; {accused} were accused.")
    lines.append(f"Commits of this project, which is about pytest, are asked about more often: {asked_of_own}.")
    text = DOCUMENT.read_text()
    begin, end = "<!-- attacks -->\n", "<!-- /attacks -->"
    table = "\n".join(lines) + "\n"
    DOCUMENT.write_text(re.sub(f"(?s){begin}.*?{end}", lambda _: f"{begin}{table}{end}", text))


def rows_of_user(given: argparse.Namespace) -> list[Row]:
    """Try a share again as an ordinary user, where root may make one; says loudly where that cannot be."""
    if os.getuid() != 0:
        print(f"as an ordinary user only: this is user {os.getuid()}", file=sys.stderr)
        return []
    needed = ("useradd", "userdel", "setpriv", "unshare", "mount")
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        print(f"NOT TRIED as an ordinary user, no case of its share: no {', '.join(missing)}", file=sys.stderr)
        return []
    made = subprocess.run(
        ["useradd", "--create-home", "--key", "HOME_MODE=0700", USER], capture_output=True, text=True, check=False
    )
    if made.returncode not in (0, 9):  # 9: a run that was killed left it
        print(f"NOT TRIED as an ordinary user: useradd: {made.stderr.strip()}", file=sys.stderr)
        return []
    try:
        # Interpreter and clone may lie where this user cannot go, as below root's home: a mount namespace of its own
        # shows these folders alone, without a change to what others see.
        shown = [ROOT, Path(sys.prefix), Path(sys.base_prefix)]
        mounts = _mounts_for(shown)
        script = f'set -e\n{mounts}exec setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs "$@"'
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": f"/home/{USER}",
            "LANG": "C.UTF-8",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        words = [sys.executable, str(Path(__file__).resolve()), "--as-user", "--json", "--seed", str(given.seed)]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *words], cwd=f"/home/{USER}", env=environment,
            capture_output=True, text=True, check=False, timeout=3600,
        )  # fmt: skip
        try:
            return [tuple(row) for row in json.loads(done.stdout)["rows"]]
        except ValueError:
            print(f"NOT TRIED as an ordinary user: {done.stderr.strip()[-500:]}", file=sys.stderr)
            return []
    finally:
        subprocess.run(["userdel", "--remove", USER], capture_output=True, check=False)


def _mounts_for(shown: Sequence[Path]) -> str:
    """Return the commands that show folders below ones which only root may enter."""
    closed = {parent for path in shown for parent in path.resolve().parents if parent.stat().st_mode & 0o005 != 0o005}
    tops = [one for one in closed if not closed.intersection(one.parents)]
    lines = []
    for number, top in enumerate(sorted(tops)):
        below = [path.resolve() for path in shown if top in path.resolve().parents]
        keep = f"/mnt/attacks-{number}"
        lines.append("mount -t tmpfs -o mode=755 none /mnt")
        lines += [f"mkdir -p {keep}", f"mount --bind '{top}' {keep}", f"mount -t tmpfs -o mode=755 none '{top}'"]
        for path in below:
            lines += [f"mkdir -p '{path}'", f"mount --bind '{keep}/{path.relative_to(top)}' '{path}'"]
    return "".join(f"{line}\n" for line in lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every case, and ten times as many generated ones")
    parser.add_argument("--more", type=int, help="generated forgeries, as many as that")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn (0)")
    parser.add_argument("--only", default="", help="cases of which name or theme hold this")
    parser.add_argument("--json", action="store_true", help="a document for programs in place of the table")
    parser.add_argument("--write", action="store_true", help="write the table of docs/verification.md anew")
    parser.add_argument("--as-user", dest="is_user", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
