"""Measure a demo run of real Claude Code agents on the scripted model: launches, memory, states, cost, outcomes.

    .venv/bin/python scripts/real_agents.py [--agents 12] [--out real-agents.json] [--pictures FOLDER]

`claude` must be on PATH (`make agents` installs one into .agents). The run is `selftest-tui demo --agent claude
--batch --keep` in a temporary folder of its own. Each second a watch, as a screen has one, is asked for the state of
every agent, and that is compared with the scripted model's log. At the end the run's recordings are drawn, its review
is read, and all of it is swept. Prints JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from selftest_core.demo import claude
from selftest_core.fleet.view import Category, Row
from selftest_core.fleet.watch.fleet_watch import FleetWatch
from selftest_core.fleet.watch.poll_schedule import WatchSettings
from selftest_recorder.cast.events import MARKER
from selftest_recorder.cast.reader import read_cast

PROGRAM = Path(sys.executable).parent / "selftest-tui"
TOLERANCE = 1.0
"""Seconds that we may take to see a change of the log."""
_LONGEST_STOP_HOOK = 60.0
"""Seconds; on a busy machine it was seen to take forty."""
KINDS = ("input", "output", "cache_read", "cache_creation")


class Truth:
    """What the scripted model's log says of each agent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self, agent_id: str) -> list[dict[str, Any]]:
        """The lines about one agent, without what its program asks for itself."""
        session = agent_id.removeprefix("agent-")
        found = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        return [one for one in found if one["conversation"].replace("-", "") == session and not one["is_aside"]]

    def is_working(self, agent_id: str, at: float) -> bool | None:
        """Whether the agent is in a turn at a moment; None before its first."""
        before = [line for line in self.lines(agent_id) if line["at"] <= at]
        if not before:
            return None
        return not (before[-1]["event"] == "answered" and not before[-1]["tool"])

    def sent(self, agent_id: str) -> dict[str, int]:
        """The tokens that the model says it sent to the agent."""
        by_message = {line["message"]: line["usage"] for line in self.lines(agent_id) if "usage" in line}
        return {kind: sum(usage[kind] for usage in by_message.values()) for kind in KINDS}


class Sampler:
    """Asks a watch each second, and holds what it says against the log."""

    def __init__(self, root: Path) -> None:
        self.truth = Truth(root / claude.LOG)
        self._root = root
        self._rows: tuple[Row, ...] = ()
        self.counted: Counter[str] = Counter()
        self.wrong: list[dict[str, Any]] = []
        self.memory: dict[str, int] = {}
        self.most_memory = 0
        self.most_agents = 0
        self.usage: dict[str, dict[str, int]] = {}
        self._watch = FleetWatch(WatchSettings(root / "acme-shop", remote=False), environ_of(root), self._publish)
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._watch.run), threading.Thread(target=self._sample)]

    def _publish(self, view: Any) -> None:
        self._rows = view.rows

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watch.stop()
        for thread in self._threads:
            thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(1.0):
            memory = 0
            rows = self._rows
            at = time.time()
            alive = [row for row in rows if row.agent.pid and row.agent.type == "claude"]
            for row in rows:
                self._compare(row, at)
            for row in alive:
                took = proportional_memory(row.agent.pid or 0)
                self.memory[row.agent.name] = max(took, self.memory.get(row.agent.name, 0))
                memory += took
            self.most_memory = max(self.most_memory, memory)
            self.most_agents = max(self.most_agents, len(alive))

    def _compare(self, row: Row, at: float) -> None:
        if row.agent.type != "claude":
            return
        if row.usage is not None:
            used = row.usage
            self.usage[row.agent.id] = {
                "input": used.input, "output": used.output, "cache_read": used.cached,
                "cache_creation": used.cache_write,
            }  # fmt: skip
        said = row.category is Category.WORKING
        if not row.agent.pid or row.category not in (Category.WORKING, Category.WAITING, Category.NEEDS_YOU):
            return
        now = self.truth.is_working(row.agent.id, at)
        if now is None:
            return
        before = self.truth.is_working(row.agent.id, at - TOLERANCE)
        verdict = "right" if said == now else "right a second ago" if said == before else "wrong"
        if verdict == "wrong" and said and row.condition is not None and row.condition.source.startswith("Claude"):
            # Behind its last answer Claude Code runs mngr's Stop hook for some seconds, and calls itself busy.
            behind = at - self.truth.lines(row.agent.id)[-1]["at"]
            verdict = "busy by its own file, in its Stop hook" if behind < _LONGEST_STOP_HOOK else verdict
        self.counted[verdict] += 1
        if verdict == "wrong":
            last = [line for line in self.truth.lines(row.agent.id) if line["at"] <= at][-1]
            late = round(at - last["at"], 2)
            self.wrong.append({
                "agent": row.agent.name, "said": str(row.category), "condition": repr(row.condition),
                "log": last["event"], "tool": last.get("tool"), "seconds_behind_the_log": late,
            })  # fmt: skip


def proportional_memory(pid: int) -> int:
    """The PSS of a process in bytes, 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def launches(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds from `launching` to `launched`, by agent."""
    began = {line["agent"]: instant(line["at"]) for line in lines if line["event"] == "launching"}
    return {
        line["agent"]: round(instant(line["at"]) - began[line["agent"]], 1)
        for line in lines
        if line["event"] == "launched" and line["agent"] in began
    }


def instant(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 time."""
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def draw(root: Path, environ: dict[str, str], pictures: Path) -> list[str]:
    """Draw each recording of the run as SVG, at the moment of its outcome or half-way; returns the files."""
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = []
    for path in sorted(root.glob("acme-shop/.selftest/runs/*/agents/*/attempt-*/terminal.cast")):
        events = list(read_cast(path).events())
        ends = [event.time for event in events if event.code == MARKER and event.data == "outcome"]
        at = ends[-1] if ends else events[-1].time / 2
        done = subprocess.run(
            [PROGRAM, "replay", path, "--at", f"{max(0.0, at - 1.0):.2f}", "--format", "svg"],
            env=environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        file = pictures / f"{path.parent.parent.name}.svg"
        file.write_text(done.stdout, encoding="utf-8")
        drawn.append(str(file))
    return drawn


def kept(root: Path) -> dict[str, int]:
    """How many recordings and conversations were kept."""
    names = ("terminal.cast", "conversation.txt", "conversation.jsonl", "outcome.json")
    return {
        name: len(list(root.glob(f"acme-shop/.selftest/runs/*/agents/*/attempt-*/{name}"))) for name in names
    }  # fmt: skip


def opened_review(root: Path) -> dict[str, Any]:
    """Open the run's review again, without a screen; how it ended and how many changes it has."""
    environ = environ_of(root)
    done = subprocess.run(
        [PROGRAM, "review", "--batch"], cwd=root / "acme-shop", env=environ, capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    items = json.loads(lines[-1]).get("items", []) if lines else []
    return {"exit_status": done.returncode, "changes": len(items), "says": done.stderr.strip()[-300:]}


def environ_of(root: Path) -> dict[str, str]:
    """The environment of a screen in the demo's world."""
    environ = {
        **os.environ, "HOME": str(root / "h"), "MNGR_HOST_DIR": str(root / "m"), "TMUX_TMPDIR": str(root / "t"),
        "XDG_STATE_HOME": str(root / "h/.local/state"),
    }  # fmt: skip
    environ.pop("TMUX", None)
    return environ


def main() -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ra-", dir="/tmp") as folder:
        environ = {**os.environ, "TMPDIR": folder}
        environ.pop("TMUX", None)
        began = time.monotonic()
        out = Path(folder) / "run.jsonl"
        command: list[str | Path] = [
            PROGRAM,
            "demo",
            "--agent",
            "claude",
            "--agents",
            str(said.agents),
            "--batch",
            "--keep",
        ]
        with out.open("w", encoding="utf-8") as stdout:
            process = subprocess.Popen(command, stdout=stdout, stdin=subprocess.DEVNULL, env=environ)
        try:
            root = _root(Path(folder), process)
            with Sampler(root) as sampler:
                status = process.wait()
            result = _result(out, root, sampler, status, time.monotonic() - began)
            result["review"] = opened_review(root)
            if said.pictures:
                result["pictures"] = draw(root, environ, said.pictures)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            subprocess.run([PROGRAM, "sweep", "--yes"], env=environ, check=False, stdout=subprocess.DEVNULL)
    text = json.dumps(result, indent=1)
    if said.out:
        said.out.write_text(f"{text}\n", encoding="utf-8")
    sys.stdout.write(f"{text}\n")


def _root(folder: Path, process: subprocess.Popen[bytes]) -> Path:
    """The demo's world, once its model listens."""
    while process.poll() is None:
        for root in folder.glob("selftest-demo-*"):
            if (root / claude.LOG).exists() and (root / "acme-shop").is_dir():
                return root
        time.sleep(0.1)
    raise SystemExit(f"the demo ended with {process.returncode} before its model listened")


def _result(out: Path, root: Path, sampler: Sampler, status: int, seconds: float) -> dict[str, Any]:
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    summary = lines[-1]
    ids = {line["agent"]: line["agent_id"] for line in lines if line["event"] == "launching"}
    times = launches(lines)
    sent = {name: sampler.truth.sent(agent_id) for name, agent_id in ids.items()}
    metered = {name: sampler.usage.get(agent_id) for name, agent_id in ids.items()}
    return {
        "exit_status": status,
        "seconds": round(seconds, 1),
        "agents": len(ids),
        "at_once": sampler.most_agents,
        "launch_seconds": times,
        "launch_seconds_mean": round(sum(times.values()) / max(1, len(times)), 1),
        "pss_mb_each": {name: round(took / 1e6) for name, took in sampler.memory.items()},
        "pss_mb_all_at_most": round(sampler.most_memory / 1e6),
        "state_samples": dict(sampler.counted),
        "state_samples_wrong": sampler.wrong,
        "tokens_equal": {name: metered[name] == sent[name] for name in ids},
        "tokens_differ": {name: [metered[name], sent[name]] for name in ids if metered[name] != sent[name]},
        "outcomes": summary.get("outcomes"),
        "smoke": summary.get("smoke"),
        "kept": kept(root),
        "usage": summary.get("usage"),
        "line": [{"subject": item.get("subject"), "decision": item["decision"], "status": item["status"]}
                 for item in (summary.get("line") or {}).get("items", [])],
    }  # fmt: skip


if __name__ == "__main__":
    main()
