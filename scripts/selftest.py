"""Run selftest-tui on itself: an agent for each of some of its end-to-end tests, reviewed, verified and reported.

    make selftest [ARGS="--report DIR"]

The agents are scripted (the actor of the demo), everything else is real: a clone of the committed state with an
environment from the lock, three defects that are planted in it, mngr, a copy and an environment for each agent,
recordings, and our own commands `run`, `verify`, `review` and `report`. It happens below one neutral folder, with a
HOME, mngr and tmux of its own, and all of it is removed at the end.

The report is searched for paths of this machine and for addresses of package registries, and ends this with 1 where
one is found, or where a command ended otherwise than it should.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.cleanup.demo_folders import end_world, host_dir_of, tmux_dir_of
from selftest_core.demo.scenarios import Role
from selftest_core.demo.staging import write_stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.demo.scenarios import Step

ROOT = Path(__file__).resolve().parents[1]
PLACE = Path("/tmp/acme")
MARKER = ".selftest-on-itself"
LARGEST_REPORT = 2 * 1024 * 1024
SPEED = 12.0
_DEADLINE = 1800.0
_UV = "uv pip install -q --python .venv/bin/python --no-deps"
SETUP = (
    "uv venv -q --clear --no-project --python {python} .venv"
    f" && {_UV} --require-hashes -r requirements.txt && {_UV} --no-build-isolation -e ."
)
"""Makes the environment of a copy from the lock: the packages come from uv's cache, which all copies share."""
_PYTEST = ("env", "-u", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", ".venv/bin/python", "-m", "pytest")
"""The command of the agents' tests: in the copy's own environment, with our plugin of pytest."""

_COMMAND = "tui/selftest_tui/cli/command.py"
_CHECK = "tui/selftest_tui/cli/tutorial/check.py"
_TESTS = "tests/e2e/test_tutorial_git.py"
_FOUND = '    found = json.loads((tmp_path / "check.json")'


@dataclass(frozen=True)
class Defect:
    """A defect that is planted: `good` becomes `bad` in the file."""

    path: str
    good: str
    bad: str


_DETAILS = '    lines += [f"  {clean(line)}" for line in _lines(error.detail)[-_DETAIL_LINES:]]\n'
NO_HINT = Defect(
    _COMMAND, f'{_DETAILS}    lines += [f"  → {{clean(line)}}" for line in _lines(error.hint)]\n', _DETAILS
)
ALWAYS_DONE = Defect(_CHECK, "    return DONE if found.is_ok else SOMETHING_LEFT\n", "    return DONE\n")
OTHER_WORDS = Defect(_CHECK, '"every block is cited, and every', '"no block is uncited, and every')
DEFECTS = (NO_HINT, ALWAYS_DONE, OTHER_WORDS)

_TEST: Step = ["test"]


def _begin(words: str, path: str) -> tuple[Step, ...]:
    return (["say", words], ["think", 2.0], ["read", path], _TEST, ["think", 2.0])


def _mend(defect: Defect, subject: str, why: str, summary: str) -> tuple[Step, ...]:
    return (
        ["edit", defect.path, defect.bad, defect.good], _TEST, ["commit", "FIX_IMPL", subject, why],
        ["report", summary, {}],
    )  # fmt: skip


def _hint(what: str) -> tuple[Step, ...]:
    return (
        *_begin(f"{what} is an error with a hint. The hint is not printed.", _COMMAND),
        *_mend(
            NO_HINT, "Print the hint of an error", "Errors say what to do now; the line was lost.",
            "The hint of every error was lost. It is printed again.",
        ),
    )  # fmt: skip


ROLES = (
    Role(f"{_TESTS}::test_check_where_there_is_no_tutorial", _hint("A missing tutorial")),
    Role(f"{_TESTS}::test_check_as_json_where_there_are_no_tests", _hint("A missing folder of tests")),
    Role(
        f"{_TESTS}::test_check_of_a_block_without_a_test",
        (
            *_begin("A block without a test must end the check with 1.", _CHECK),
            *_mend(
                ALWAYS_DONE, "End the check with 1 where a block is uncited", "CI would pass without it.",
                "The check always ended with 0. It ends with 1 again where something is left.",
            ),
        ),
    ),
    Role(
        f"{_TESTS}::test_check",
        (
            *_begin("The last line has other words than the test expects.", _CHECK),
            ["edit", _CHECK, OTHER_WORDS.bad, '"each block is cited, and every'],
            ["commit", "FIX_IMPL", "Say that each block is cited", "The words of the last line were turned around."],
            ["report", "The last line says it positively again.", {"tests_passing_after": True}],
        ),
    ),
    Role(
        f"{_TESTS}::test_check_as_json",
        (
            *_begin("It passes. Nothing should be printed beside the file, and no line holds that.", _TESTS),
            [
                "edit", _TESTS, f"    expect(result).to_succeed()\n{_FOUND}",
                f"    expect(result).to_succeed().stdout.to_be_empty()\n{_FOUND}",
            ],
            _TEST,
            ["commit", "IMPROVE_TEST", "Expect no output beside the file", "Words on stdout would break the JSON."],
            ["report", "The test passes, and now holds that nothing but the document is printed.", {}],
        ),
    ),
    Role(
        f"{_TESTS}::test_review",
        (
            *_begin("I read the block and the test.", _TESTS),
            ["say", "The command is run as it stands, and its candidate is compared with git. Nothing is to be done."],
            ["report", "Nothing to change.", {}],
        ),
        ends="unchanged",
    ),
    Role(
        f"{_TESTS}::test_review_of_changes_in_conflict",
        (
            *_begin("It passes. The block says nothing about conflicts.", "tutorial.sh"),
            ["ask", "Should the tutorial show how a conflict is resolved?", ["yes", "no"], [
                [["report", "A block about conflicts is wanted.", {}]],
                [["report", "Nothing to change.", {}]],
                [["report", "Blocked: somebody must say whether the tutorial shows conflicts.", {
                    "tests_passing_after": None,
                    "escalations": [{
                        "kind": "BLOCKER", "title": "Should the tutorial show how a conflict is resolved?",
                        "detail_markdown": "The sentence above the block says *held*, and no block shows it.",
                        "locations": [{"path": "tutorial.sh", "line": 1}],
                    }],
                }]],
            ]],
        ),
        ends="blocked",
    ),
)  # fmt: skip


class Selftest:
    """One such run, in its folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.checkout = place / "selftest-tui"
        asked = subprocess.run([_beside("uv"), "cache", "dir"], capture_output=True, text=True, check=True)
        self.environment = {
            "HOME": str(place / "h"),
            "USER": "acme",
            "LOGNAME": "acme",
            "MNGR_HOST_DIR": str(host_dir_of(place)),
            "TMUX_TMPDIR": str(tmux_dir_of(place)),
            "TMPDIR": str(place / "x"),
            "PATH": f"{self.checkout}/.venv/bin:/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin",
            "SHELL": shutil.which("bash") or "/bin/sh",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            # The clone has filled the cache by then.
            "UV_CACHE_DIR": asked.stdout.strip(),
            "UV_OFFLINE": "1",
        }

    def prepare(self) -> None:
        """Make the folders, the clone with the planted defects, and its environment."""
        if self.place.exists() and not (self.place / MARKER).is_file():
            raise SystemExit(f"{self.place} exists and is not ours: --place names another folder")
        end_world(self.place)
        profile = host_dir_of(self.place) / "profiles" / "selftest"
        for folder in (self.place / "h", self.place / "x", tmux_dir_of(self.place), profile):
            folder.mkdir(parents=True)
        (self.place / MARKER).touch()
        (host_dir_of(self.place) / "config.toml").write_text('profile = "selftest"\n')
        (profile / "settings.toml").write_text('enabled_backends = ["local"]\n')
        (profile / "tmux_onboarding_shown").touch()
        (self.place / "h/.gitconfig").write_text("[user]\n\tname = scripted agent\n\temail = agent@example.org\n")
        # The shell that an agent starts in shows neither user nor host.
        (self.place / "h/.bashrc").write_text("PS1='$ '\n")
        self._plain("git", "clone", "-q", str(ROOT), str(self.checkout), cwd=self.place)
        self._plain("git", "checkout", "-q", "-B", "main")
        self._plain("git", "remote", "remove", "origin")
        for defect in DEFECTS:
            path = self.checkout / defect.path
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(defect.good, defect.bad, 1), encoding="utf-8")
        self._plain("git", "commit", "-q", "-a", "-m", "Plant three defects for the scripted agents")
        # Fills the cache that the copies share; the caller's own settings of uv say where packages come from.
        python = Path(getattr(sys, "_base_executable", sys.executable))
        ours = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        filling = {**os.environ, "PATH": ours, "VIRTUAL_ENV": ""}
        self._plain("sh", "-c", SETUP.format(python=python), env=filling)

    def command(self, *words: str, ends: Sequence[int]) -> list[dict[str, Any]]:
        """Run one of our commands with --batch, and return its lines of JSON. `ends`: its allowed exit statuses."""
        began = time.monotonic()
        argv = ["selftest-tui", *words]
        done = subprocess.run(
            [self.checkout / ".venv/bin/selftest-tui", *words], cwd=self.checkout, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_DEADLINE,
        )  # fmt: skip
        print(f"{time.monotonic() - began:6.0f} s  {' '.join(argv)[:90]}", flush=True)
        if done.returncode not in ends:
            raise SystemExit(
                f"{' '.join(argv)} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
            )
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def run(self) -> None:
        """Run the agents, verify what they claim, decide, and publish."""
        stage = self.place / "stage"
        stage.mkdir()
        agent = write_stage(stage, ROLES, speed=SPEED, patience=20.0)
        written = json.loads((stage / "stage.json").read_text())
        (stage / "stage.json").write_text(json.dumps({**written, "pytest": _PYTEST}))
        python = f"{self.checkout}/.venv/bin/python"
        words = [python if word == sys.executable else word for word in agent]
        self.command(
            "run", "--batch", *(role.test for role in ROLES), "--agent-command", " ".join(words),
            "--set", f"setup_command={SETUP.format(python=python)}", "--set", f"pytest_command={python} -m pytest",
            "--max-running", "2", "--timeout", "900", "--no-verify-on-arrival", ends=(0, 1),
        )  # fmt: skip
        lines = self.command("verify", "--batch", "--set", "setup_command=", ends=(0, 1))
        liars = [change["source"] for change in _items(lines) if "liar" in change.get("marks", ())]
        decisions = {"default": "keep", "items": dict.fromkeys(liars, "revert")}
        (self.checkout / ".selftest/decisions.json").write_text(json.dumps(decisions))
        self.command(
            "review", "--batch", "--decisions", ".selftest/decisions.json", "--publish", "selftest", "--verify",
            "--set", "setup_command=", ends=(0, 1),
        )  # fmt: skip

    def report(self, target: Path | None) -> list[str]:
        """Write the report, copy it, and return what should not be in it."""
        answer = self.command("report", "--batch", "--decisions", ".selftest/decisions.json", ends=(0, 1))[-1]
        folder = Path(answer["path"])
        folder = folder if folder.is_dir() else folder.parent
        if target is not None:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".*"))
        return list(faults(folder))

    def end(self) -> None:
        """End everything that runs in the folder, and remove it."""
        for problem in end_world(self.place):
            print(problem, file=sys.stderr)

    def _plain(self, *argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        subprocess.run(argv, cwd=cwd or self.checkout, env=env or self.environment, check=True, timeout=_DEADLINE)


def faults(folder: Path) -> Iterator[str]:
    """Find what a report that others read must not hold: our paths, our names, registries; and more than 2 MB."""
    home, host = str(Path.home()), socket.gethostname()
    words = [str(ROOT), f"@{host}:", *([home] if home != "/" else [])]
    registries = r"https?://[^/\s\"']*(?:pypi|npmjs|registry|index)[^\s\"']*"
    pattern = re.compile("|".join([*map(re.escape, words), registries]))
    size = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            size += len(data)
            if path.parent.name != "assets":
                for found in sorted(set(pattern.findall(data.decode("utf-8", "replace")))):
                    yield f"{path.relative_to(folder)} holds {found}"
    print(f"the report has {size / 1024:,.0f} KiB")
    if size > LARGEST_REPORT:
        yield f"the report has {size:,} bytes, more than {LARGEST_REPORT:,}"


def _items(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    summaries = [line for line in lines if line.get("event") == "summary"]
    return list(summaries[-1].get("items", ())) if summaries else []


def _beside(program: str) -> str:
    return str(Path(sys.executable).parent / program)


def main() -> int:
    """Run it; return 1 where the report holds what it must not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--place", type=Path, default=PLACE, help=f"the folder that all happens in; default: {PLACE}")
    parser.add_argument("--report", type=Path, help="copy the report to this folder")
    parser.add_argument("--keep", action="store_true", help="leave everything, to look at it")
    arguments = parser.parse_args()
    began = time.monotonic()
    selftest = Selftest(arguments.place)
    try:
        selftest.prepare()
        print(f"{time.monotonic() - began:6.0f} s  a clone with its environment in {selftest.checkout}", flush=True)
        selftest.run()
        found = selftest.report(arguments.report)
    finally:
        if not arguments.keep:
            selftest.end()
    for fault in found:
        print(fault, file=sys.stderr)
    print(f"{time.monotonic() - began:6.0f} s  in all")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
