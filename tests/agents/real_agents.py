"""Real coding agents on the scripted model in a private world, watched as two screens watch them.

What an agent really does is told by the scripted model's log; what we say of it by two watches and `list --json`.
The programs are those that `make agents` installed into `.agents`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.agents import State
from selftest_core.demo import claude
from selftest_core.fleet.view import Category
from selftest_core.fleet.watch.fleet_watch import FleetWatch
from selftest_core.fleet.watch.poll_schedule import WatchSettings
from simulated.model import running_model
from tui.cli.programs import by_name, listed
from worlds import BIN, PATIENCE, ROOT, World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from selftest_core.agent_types.condition import Kind
    from selftest_core.demo.scripted_model.server import ModelServer
    from selftest_core.demo.scripted_model.testers import Stage
    from selftest_core.fleet.view import FleetView, Row

PROGRAMS = ROOT / ".agents" / "node_modules" / ".bin"
TAKES_KEYS = 5.0
"""Seconds after which a dialog that is still there did not take a key; more than any redraw needs."""
FIGURES = ROOT / ".agents" / "figures.jsonl"
"""What was measured, a line each; `conftest` prints it at the end."""
BYPASS = {"permissions": {"defaultMode": "bypassPermissions"}, "skipDangerousModePermissionPrompt": True}
ASKING = {"permissions": {"defaultMode": "default"}}


@dataclass
class Sample:
    """What one watch said of one agent from a moment on."""

    at: float
    row: Row


@dataclass
class Watcher:
    """One watch, as a screen has one, and all that it published of each agent, by name."""

    said: dict[str, list[Sample]] = field(default_factory=dict)

    def publish(self, view: FleetView) -> None:
        """Keep the rows that are new."""
        now = time.time()
        for row in view.rows:
            samples = self.said.setdefault(row.agent.name, [])
            if not samples or samples[-1].row is not row:
                samples.append(Sample(now, row))

    def row(self, name: str) -> Row | None:
        """What stands."""
        samples = self.said.get(name)
        return samples[-1].row if samples else None


@dataclass
class Real:
    """A world with real agents. `model` is what they talk to."""

    world: World
    model: ModelServer
    log: Path
    watchers: list[Watcher] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)

    def create(self, name: str, message: str = "", *more: str, agent_type: str = "claude", check: bool = True) -> None:
        """Make an agent in place with the real mngr. `check`: its creation must succeed."""
        self.world.make_repository()
        said = ("--message", message) if message else ()
        out = self.world.mngr(
            "create", name, "--type", agent_type, "--no-connect", "--headless", "--yes", "--format", "json",
            "--transfer", "none", "--no-ensure-clean", "-S", "agent_ready_timeout=60", *said, *more, check=check,
        )  # fmt: skip
        if out.strip():
            self.ids[name] = str(json.loads(out.strip().splitlines()[-1])["agent_id"])

    def settings(self, settings: dict[str, Any]) -> None:
        """Claude Code's settings of the agents that are made from now on."""
        (self.world.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    def say(self, name: str, text: str) -> float:
        """Send a message through mngr; the moment before it."""
        now = time.time()
        self.world.mngr("message", name, "-m", text)
        return now

    def type(self, name: str, text: str) -> float:
        """Type a message that opens a dialog; the moment before it.

        `mngr message` presses Enter again after 3 s without a sign of a turn, as on a busy machine: that would answer.
        """
        now = self.press(name, "-l", text)
        eventually(
            lambda: text in self.screen(name).rpartition("\u276f")[2], f"{text} in the prompt\n{self.screen(name)}"
        )
        self.press(name, "Enter")
        return now

    def press(self, name: str, *keys: str) -> float:
        """Press keys in the agent's terminal; the moment before them."""
        now = time.time()
        self.world.tmux("send-keys", "-t", f"=mngr-{name}:", *keys)
        return now

    def answer(self, name: str, dialog: str, *keys: str) -> float:
        """Press keys in a dialog that shows this text; the moment before they were pressed the last time.

        A dialog takes no keys before it is drawn, and some not at once after that: while it stays, they are pressed
        again, as a person would.
        """
        eventually(lambda: dialog in self.screen(name), f"{dialog!r} on the screen\n{self.screen(name)}")
        pressed_at = 0.0

        def is_gone() -> bool:
            nonlocal pressed_at
            if dialog not in self.screen(name):
                return True
            if time.time() - pressed_at > TAKES_KEYS:
                pressed_at = self.press(name, *keys)
            return False

        eventually(is_gone, f"{keys} taken by the dialog\n{self.screen(name)}")
        return pressed_at

    def screen(self, name: str) -> str:
        """The agent's screen."""
        return self.world.tmux("capture-pane", "-p", "-t", f"=mngr-{name}:", check=False)

    def lines(self, name: str | None = None) -> list[dict[str, Any]]:
        """The model's log, or what is about one agent in it, without what its program asks for itself."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        if name is None:
            return lines
        root = self.world.agent_dir(self.ids[name]) / "codex_root_session"
        # Claude Code's session has the agent's id; Codex chooses its own, which mngr writes down.
        agent = root.read_text().strip() if root.is_file() else self.ids[name].removeprefix("agent-")
        agent = agent.replace("-", "")
        return [line for line in lines if line["conversation"].replace("-", "") == agent and not line["is_aside"]]

    def event(self, name: str, wanted: Callable[[dict[str, Any]], bool], since: float, what: str) -> dict[str, Any]:
        """The first event of an agent since a moment that is as wanted; waits for it."""

        def found() -> dict[str, Any]:
            return next((line for line in self.lines(name) if line["at"] >= since and wanted(line)), {})

        return eventually(found, f"{what}\n{self.screen(name)}")

    def asked(self, name: str, since: float) -> float:
        """When the agent asked the model, since a moment."""
        return float(self.event(name, lambda line: line["event"] == "asked", since, "a request")["at"])

    def tool_called(self, name: str, since: float) -> float:
        """When the model had sent a call of a tool."""

        def is_call(line: dict[str, Any]) -> bool:
            return line["event"] == "answered" and bool(line["tool"])

        return float(self.event(name, is_call, since, "a call of a tool")["at"])

    def turn_ended(self, name: str, since: float) -> float:
        """When the model had sent the end of a turn."""

        def is_end(line: dict[str, Any]) -> bool:
            return line["event"] == "answered" and not line["tool"]

        return float(self.event(name, is_end, since, "the end of a turn")["at"])

    def refused(self, name: str, since: float, times: int = 1) -> float:
        """When the model had refused so often."""

        def at() -> float:
            found = [line["at"] for line in self.lines(name) if line["event"] == "refused" and line["at"] >= since]
            return float(found[times - 1]) if len(found) >= times else 0.0

        return eventually(at, f"{times} refusals\n{self.screen(name)}")

    def says(
        self,
        situation: str,
        name: str,
        since: float,
        is_right: Callable[[Row], bool],
        *,
        since_log: bool = False,
        is_measured: bool = True,
    ) -> Row:
        """Wait until both watches say what is right of an agent; keep how long after `since` each did.

        `since_log`: the figure counts from the last line of the model's log instead, where nothing tells beforehand
        which line that is. `is_measured` False: nothing tells when it began.
        """

        def stands() -> bool:
            rows = [watcher.row(name) for watcher in self.watchers]
            return all(row is not None and is_right(row) for row in rows)

        try:
            eventually(stands, patience=PATIENCE / 2)
        except AssertionError:
            said = "\n".join(describe(watcher.row(name)) for watcher in self.watchers)
            written = self.written(name)
            raise AssertionError(
                f"{situation}: the watches say\n{said}\nof\n{self.screen(name)}\nthat wrote\n{written}"
            ) from None
        if since_log:
            since = float(self.lines(name)[-1]["at"])
        for number, watcher in enumerate(self.watchers if is_measured else (), 1):
            right_at = self._right_at(watcher.said[name], is_right)
            note(f"{situation}, watch {number}, since the event", round(max(0.0, right_at - since), 2), "s")
            told = watcher.said[name][-1].row.condition
            if told is not None and told.since is not None and told.since > since:
                late = round(max(0.0, right_at - told.since), 2)
                note(f"{situation}, watch {number}, since the agent's own file said so", late, "s")
        row = self.watchers[0].row(name)
        assert row is not None
        return row

    def written(self, name: str) -> str:
        """The end of what Claude Code wrote of the agent's conversation, each line cut short, for a failure."""
        files = self.world.agent_dir(self.ids[name]).glob("plugin/claude/anthropic/projects/*/*.jsonl")
        return "\n".join(line[:400] for file in files for line in file.read_text().splitlines()[-12:])

    def listing(self, name: str, *arguments: str) -> dict[str, Any]:
        """One agent as `list --json` tells it."""
        return by_name(listed(self.world, *arguments))[name]

    @staticmethod
    def _right_at(samples: list[Sample], is_right: Callable[[Row], bool]) -> float:
        """Since when the watch is right without a break; seconds since the epoch."""
        right_at = 0.0
        for sample in reversed(samples):
            if not is_right(sample.row):
                break
            right_at = sample.at
        return right_at


def as_it_is(kind: Kind, category: Category, words: str = "", state: State | None = None) -> Callable[[Row], bool]:
    """A row of this kind and category, whose attention has these words; none at all where there are no words.

    `state`: None for what the kind means by itself.
    """
    wanted = state or (State.RUNNING if category is Category.WORKING else State.WAITING)

    def is_so(row: Row) -> bool:
        if row.condition is None or (row.condition.kind, row.category, row.agent.state) != (kind, category, wanted):
            return False
        return words in (row.attention or "") if words else row.attention is None

    return is_so


def describe(row: Row | None) -> str:
    """A row in words, for a failure."""
    if row is None:
        return "nothing"
    return f"{row.agent.state} {row.category} {row.attention!r} by {row.source}: {row.condition}"


def note(name: str, value: float, unit: str) -> None:
    """Keep a figure; appended whole, since several processes do."""
    with FIGURES.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps({'name': name, 'value': value, 'unit': unit})}\n")


@contextlib.contextmanager
def real_agents(stage: Stage | None = None) -> Iterator[Real]:
    """A world whose agents are Claude Code and Codex on a scripted model, watched by two watches."""
    node = shutil.which("node")
    assert PROGRAMS.is_dir(), "`make agents` installs what these tests need"
    path = [str(PROGRAMS), str(BIN), *([str(Path(node).parent)] if node else []), "/usr/local/bin:/usr/bin:/bin"]
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(a_world(PATH=os.pathsep.join(path), SELFTEST_TUI_REMOTE="false"))
        log = world.root / "model.jsonl"
        model = stack.enter_context(running_model(log, stage))
        world.extra.update(claude.variables(model.url))
        claude.write_home(world.home)
        world.make_repository()
        made = Real(world, model, log)
        for _ in range(2):
            stack.enter_context(made_watcher(made))
        yield made


@contextlib.contextmanager
def made_watcher(real: Real) -> Iterator[Watcher]:
    """One more watch, for a block."""
    watcher = Watcher()
    watch = FleetWatch(WatchSettings(real.world.root, remote=False), real.world.environment, watcher.publish)
    thread = threading.Thread(target=watch.run, name="watch", daemon=True)
    thread.start()
    real.watchers.append(watcher)
    try:
        yield watcher
    finally:
        real.watchers.remove(watcher)
        watch.stop()
        thread.join(PATIENCE)


def proportional_memory(pid: int) -> int:
    """The PSS of a process in bytes, 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def cut_off_from_the_network() -> bool:
    """True where this process has the loopback device alone."""
    if not Path("/proc/net/dev").exists():
        return False
    devices = [line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return devices == ["lo"]


def version(program: str) -> str:
    """What a program says of its version."""
    said = subprocess.run([PROGRAMS / program, "--version"], capture_output=True, text=True, check=True, timeout=60)
    return said.stdout.strip()
