"""The recipes of docs/every-day.md, run dry: the crontab line, and each `run:` of the workflow, for two nights.

GitHub is a folder and the stand-in for gh here: two jobs are two clones at one path, an artifact is a file. Steps that
install something meet stand-ins which write down what they were asked for. The run, its scripted agents, the review and
the verification are real.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]

from core.run.shop import FILES, commit
from e2e.test_tutorial_run import AGENT, write_agent
from github import GitHub
from selftest_core.run.history.scheduled_log import scheduled_lines
from worlds import ROOT, World

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.real
EXAMPLES = ROOT / "docs" / "examples"
WORKFLOW: dict[Any, Any] = yaml.safe_load((EXAMPLES / "selftest.yml").read_text(encoding="utf-8"))
ACTIONS = {
    "actions/checkout@v4", "astral-sh/setup-uv@v6", "actions/cache/restore@v4", "actions/cache/save@v4",
    "actions/upload-artifact@v4", "actions/download-artifact@v4",
}  # fmt: skip


@dataclass
class Runner:
    """A machine of the workflow: it runs the `run:` lines of a job as GitHub does, in a clone of its own."""

    world: World
    github: GitHub
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def temp(self) -> Path:
        return self.world.root / "runner-temp"

    def value(self, text: str) -> str:
        """Replace the expressions of the workflow; an unknown one fails the test."""
        known = {
            "github.token": "a-token", "github.run_id": "7", "secrets.ANTHROPIC_API_KEY": "a-key",
            "runner.temp": str(self.temp), "needs.night.outputs.run": self.outputs.get("run", ""),
        }  # fmt: skip
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: known[found[1]], text)

    def clone(self) -> None:
        """Check out the repository anew, at the same path: each job has a machine of its own."""
        shutil.rmtree(self.world.repository, ignore_errors=True)
        self.world.run(["git", "clone", "-q", self.world.root / "o.git", self.world.repository], cwd=self.world.root)

    def job(self, name: str) -> None:
        """Run the steps of a job, until one fails."""
        job = WORKFLOW["jobs"][name]
        for step in job["steps"]:
            if "uses" in step:
                assert step["uses"] in ACTIONS
                continue
            done = self.step({**WORKFLOW["env"], **step.get("env", {})}, step["run"])
            assert done.returncode == 0, (step["name"], done.stdout, done.stderr)

    def step(self, env: dict[str, str], script: str) -> subprocess.CompletedProcess[str]:
        """Run a step with the shell of GitHub's runners: `bash -e`, where none is named."""
        files = {name: self.temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        path = self.temp / "step.sh"
        path.write_text(self.value(script))
        done = self.world.run(
            ["bash", "-e", path], check=False, timeout=280,
            env={**{name: self.value(value) for name, value in env.items()}, "RUNNER_TEMP": str(self.temp)}
            | {name: str(file) for name, file in files.items()},
        )  # fmt: skip
        if files["GITHUB_OUTPUT"].exists():
            pairs = (line.partition("=") for line in files["GITHUB_OUTPUT"].read_text().splitlines())
            self.outputs |= {key: value for key, _, value in pairs}
        return done


@pytest.fixture
def runner(world: World) -> Runner:
    """A shop with the decisions file, its remote, and the stand-ins."""
    made = world.make_repository()
    settings = "agent = 'command'\nagent_command = ['./agent.sh']\n"
    decisions = (EXAMPLES / "selftest-decisions.json").read_text(encoding="utf-8")
    files = {**FILES, "selftest-tui.toml": settings, ".github/selftest-decisions.json": decisions}
    for name, text in files.items():
        if name not in ("tests/test_broken.py", "tests/test_cart.py"):
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_text(text)
    write_agent(made, text=AGENT)
    commit(world, "A shop")
    world.run(["git", "clone", "-q", "--bare", made, world.root / "o.git"])
    github = GitHub.make(world.root / "gh")
    for name in ("sudo", "npm", "uv"):
        program = github.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {github.folder}/installed\n')
        program.chmod(0o755)
    world.extra["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    world.load_mngr()
    world.extra["PATH"] = f"{github.folder}{os.pathsep}{world.environment['PATH']}"
    runner = Runner(world, github)
    runner.temp.mkdir()
    return runner


@pytest.mark.timeout(600)
def test_two_nights_by_the_workflow_and_a_third_by_cron(runner: Runner) -> None:
    world = runner.world
    runner.clone()
    runner.job("night")
    run = runner.outputs["run"]
    assert re.fullmatch(r"[0-9]{8}-[0-9]{4}-[0-9a-f]{4}", run)
    assert "1 succeeded" in (runner.temp / "GITHUB_STEP_SUMMARY").read_text()
    assert any("bubblewrap" in line for line in (runner.github.folder / "installed").read_text().splitlines())

    runner.clone()
    assert not (world.repository / ".selftest").exists(), "the job that publishes has a machine of its own"
    runner.job("publish")
    (opened,) = runner.github.read()
    assert opened["headRefName"] == f"selftest/{run}"
    assert f"<!-- selftest-tui run={run} -->" in opened["body"]
    pushed = world.run(
        ["git", "--git-dir", world.root / "o.git", "log", "-1", "--format=%s%n%b", opened["headRefName"]]
    )
    assert pushed.stdout.startswith("[FIX_IMPL] Round the tax")
    assert "Selftest-Verified: passed" in pushed.stdout

    # The second night meets the pull request, with nothing but the folder of the first.
    runner.job("night")
    assert runner.outputs["run"] == "", "so the job `publish` does not run"
    assert json.loads((runner.temp / "summary.json").read_text())["skipped"].startswith("pull request 1 of an earlier")
    assert len(runner.github.read()) == 1

    # Cron gives a command four variables, and no terminal.
    path, line = (EXAMPLES / "crontab").read_text(encoding="utf-8").splitlines()[1:]
    assert re.fullmatch(r"PATH=(/[\w./-]+:)*/[\w./-]+", path)
    fields = re.fullmatch(r"(\d+) (\d+) \* \* \* ([^%]+)", line)
    assert fields is not None, "an unescaped % ends a command of cron"
    (world.home / "src").mkdir()
    (world.home / "src" / "shop").symlink_to(world.repository)
    four = {name: world.environment[name] for name in ("HOME", "PATH")} | {"SHELL": "/bin/sh", "LOGNAME": "you"}
    world.run(["env", "-i", *(f"{name}={value}" for name, value in four.items()), "/bin/sh", "-c", fields[3]])
    summary = json.loads((world.home / "selftest.jsonl").read_text().splitlines()[-1])
    assert summary["skipped"].startswith("pull request 1 of an earlier")
    assert [("run" in one, "skipped" in one) for one in scheduled_lines(world.repository)] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


def test_the_workflow_gives_agents_no_token_that_can_push() -> None:
    night, publish = WORKFLOW["jobs"]["night"], WORKFLOW["jobs"]["publish"]
    assert WORKFLOW["permissions"] == {"contents": "read", "pull-requests": "read"}
    assert "permissions" not in night
    assert publish["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert publish["needs"] == "night"
    assert publish["if"] == "${{ needs.night.outputs.run != '' }}"
    for job in (night, publish):
        (checkout,) = [step for step in job["steps"] if step.get("uses") == "actions/checkout@v4"]
        assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    # YAML 1.1 reads the key `on` as true.
    (cron,) = WORKFLOW[True]["schedule"]
    (line,) = [one for one in (EXAMPLES / "crontab").read_text().splitlines() if one.endswith('selftest.log"')]
    assert line.startswith(cron["cron"])
