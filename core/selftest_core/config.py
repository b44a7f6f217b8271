"""Settings: from the user's file, the project's file, the environment and flags, in this order of precedence.

One table, `CONFIG_KEYS`, has all defaults and makes the checks, the help and docs/settings.md. A wrong setting is
refused with its file and line, an unknown key with the nearest known one. Files are only read. Plain code, since every
command loads it: pydantic would double the time that `--help` takes.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from selftest_core.config_values import ENVIRONMENT_PREFIX, Key, Value, from_text, from_toml, toml_text
from selftest_core.errors import ConfigError
from selftest_core.frozen import dataclass
from selftest_core.paths import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


__all__ = ["CONFIG_KEYS", "ENVIRONMENT_PREFIX", "FILE_NAME", "Config", "Key", "load_config", "toml_text"]

type Notify = Literal["both", "bell", "osc9", "off"]
type OnCluster = Literal["ask", "pause", "go"]
type Isolation = Literal["auto", "require", "none"]
type Transfer = Literal["mirror", "worktree"]

FILE_NAME = "selftest-tui.toml"
_TABLE = "tool.selftest-tui"
_NO_SETTINGS = frozenset({"DEBUG"})
"""Variables with the prefix that are no settings."""

CONFIG_KEYS = (
    Key("theme", "text", "", "name of a Textual theme; empty: the program's own"),
    Key("sockets", "paths", (), "more tmux sockets; those in tmux's own folder are found without this"),
    Key("remote", "switch", True, "ask remote providers too; false: only this machine"),
    Key("poll_probe", "seconds", 3.0, "seconds between two probes of the local agents while nothing changes", 0.2),
    Key("poll_local", "seconds", 5.0, "minimum seconds between two `mngr list --provider local`", 1.0),
    Key("poll_remote", "seconds", 15.0, "minimum seconds between two `mngr list` of one remote provider", 1.0),
    Key("poll_all", "seconds", 30.0, "minimum seconds between two `mngr list` of all providers", 1.0),
    Key("list_deadline", "seconds", 60.0, "timeout of `mngr list` in seconds; half of it for a local one", 1.0),
    Key("agent", "text", "claude", "the type of a run's agents: any that mngr knows, or command"),
    Key("agent_command", "words", (), "the command of a command agent; a path in it is relative to the repository"),
    Key("on", "text", "local", "provider of a run's agents: local, modal, or another one of mngr"),
    Key(
        "transfer", "choice", "mirror", "how an agent gets its copy: mirror, or worktree on this machine",
        choices=("mirror", "worktree"),
    ),
    Key("env", "names", (), "environment variables for agents, by name; they get no others of yours"),
    Key("create_args", "words", (), "passed to `mngr create` unchanged, such as -b and -t"),
    Key("pytest_command", "words", (), "command of the project's pytest; empty: its .venv, else the pytest on PATH"),
    Key(
        "setup_command", "text", "auto", "runs in each agent's copy before the agent starts, and where changes are "
        "verified; empty: nothing; auto: uv installs uv.lock, on this machine, where both exist",
    ),
    Key("prompt", "path", "", "template of the prompt; empty: the program's own"),
    Key("max_running", "count", 20, "maximum of a run's agents at a time", 1),
    Key(
        "adapt", "switch", True,
        "the number of agents at a time goes down on rate limits, failing launches and load, and up again, to "
        "max_running at most; --max-running N keeps N unless this is set",
    ),
    Key("launch_rate", "number", 1.0, "agents that a run launches per second", 0.001),
    Key("timeout", "seconds", 3600.0, "timeout of one agent of a run in seconds", 1.0),
    Key("usd_per_agent", "money", None, "estimated cost of an agent, where nothing is metered; empty: unknown"),
    Key("budget_usd", "money", None, "a run launches no more agents once their cost reaches this; empty: no limit"),
    Key(
        "budget_day_usd", "money", None,
        "as budget_usd, for all agents that runs of this repository launched since midnight; empty: no limit",
    ),
    Key(
        "budget_day_tokens", "count", 0,
        "as budget_day_usd, in tokens, those read from the cache included; 0: no limit", 0,
    ),
    Key(
        "prices", "prices", (),
        "prices of models that override the known ones: a table of model → USD per million tokens of input, cached "
        "input, cache write, output; as one text: model=4,0.2,5,20 …",
    ),
    Key(
        "on_cluster", "choice", "ask", "when many agents fail with one cause: ask, pause, or continue (go)",
        choices=("ask", "pause", "go"),
    ),
    Key(
        "skip_while_open", "switch", True,
        "a scheduled run (run --batch --scheduled) is skipped while an earlier pull request is open; gh is asked",
    ),
    Key("cluster_alike", "count", 5, "failures with one cause that count as many, among the last cluster_window", 1),
    Key("cluster_window", "count", 10, "ended tests that are searched for many failures with one cause", 1),
    Key("launch_retries", "count", 2, "new launches of a test after one that failed", 0),
    Key("lost_retries", "count", 1, "new agents of a test after one whose host is gone", 0),
    Key("retry_pause", "seconds", 5.0, "seconds before a test's next agent; doubled with each launch that failed", 0.1),
    Key("longest_retry_pause", "seconds", 60.0, "maximum of those seconds", 0.1),
    Key(
        "rest_after", "count", 0,
        "a test rests once its last so many agents found it green and changed nothing, until something that affects it "
        "changes; 0: no test rests", 0,
    ),
    Key("rest_for", "count", 5, "number of runs that a test rests; then it gets an agent again", 1),
    Key(
        "modal_sandboxes", "count", 0,
        "most sandboxes that your plan of Modal allows at once, which Modal itself does not tell; 0: not known", 0,
    ),
    Key(
        "modal_usd_per_hour", "number", 0.0,
        "USD that a sandbox of yours costs per hour, for estimates where Modal's client does not tell; 0: none", 0.0,
    ),
    Key("smoke", "switch", True, "launch one agent with a tiny prompt before a run's others, on each provider"),
    Key(
        "load_mngr_once", "switch", True,
        "the fleet's watch and a run's conductor load mngr once and fork it for each call, which costs a fraction of "
        "starting it (Linux)",
    ),
    Key("record", "switch", True, "record the terminals of a run's agents"),
    Key("mask_env", "names", (), "variables whose values recordings mask; those of `env` are masked anyway"),
    Key("mask_patterns", "words", (), "patterns (Python's) that recordings mask; usual tokens are masked anyway"),
    Key("on_pause_command", "text", "", "shell command to run when a run pauses or needs a person"),
    Key(
        "notify", "choice", "both",
        "notification in the terminal when an agent needs you: both (bell and OSC 9), bell, osc9, or off",
        choices=("both", "bell", "osc9", "off"),
    ),
    Key("notify_command", "text", "", "shell command to run when an agent needs you, once a minute for each cluster"),
    Key(
        "verify_command", "words", (),
        "what runs pytest to verify changes, or a runner that writes JUnit XML to {junit}; empty: as pytest_command",
    ),
    Key("verify_jobs", "count", 0, "test processes at once when changes are verified; 0: half the cores", 0),
    Key(
        "verify_timeout", "seconds", 600.0,
        "seconds that a test process of a verification may take without ending a test", 1.0,
    ),
    Key(
        "verify_isolation", "choice", "auto",
        "agents' code runs when changes are verified: in a sandbox of bubblewrap where it works (auto), only so "
        "(require), or with all your rights (none)",
        choices=("auto", "require", "none"),
    ),
    Key(
        "verify_readable", "paths", (),
        "files and folders below your home that verified tests may read, such as a toolchain; all else there is hidden",
    ),
    Key("verify_network", "switch", False, "tests may use the network when changes are verified"),
    Key(
        "verify_on_arrival", "switch", True,
        "a run verifies the claim of an agent when it arrives: its test, on its tree, on this machine; for agents on "
        "other machines only where this is set",
    ),
    Key("verify_all", "switch", False, "verify with the whole test suite, not only with the tests that changes own"),
    Key(
        "publish_trailers", "switch", True,
        "published commits end with trailers: their run, agents with types and models, tests, and verified or not",
    ),
)  # fmt: skip
_BY_NAME = {key.name: key for key in CONFIG_KEYS}

AGENT_TABLE = "agents"
AGENT_KEYS = (
    Key("agent_ready_timeout", "seconds", 60.0, "seconds that mngr waits for an agent to be ready for its prompt", 1.0),
    Key("env", "names", (), "more variables for agents of this type, by name, where they are set"),
    Key(
        "usual_env", "switch", True,
        "pass on the variables that the program reads (login, address, opt-outs), where set; the plan lists them",
        types=("claude", "codex"),
    ),
    Key(
        "auto_allow_permissions", "switch", True,
        "agents in copies of their own, or on other machines, ask for no permission",
        types=("claude", "codex"),
    ),
    Key(
        "auto_disable_questions", "switch", True,
        "agents in copies of their own, or on other machines, ask no questions",
        types=("claude",),
    ),
    Key(
        "sync_claude_credentials", "switch", False, "copy your login of Claude Code to the machines of agents",
        types=("claude",),
    ),
)  # fmt: skip
"""Settings of one agent type, in the table `[agents.TYPE]`; `--set agents.TYPE.KEY=VALUE`."""
_OF_AGENT = {key.name: key for key in AGENT_KEYS}
_AGENT_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


_NAMED = {
    "keys": Key(
        "keys.ACTION", "keys", (),
        "other keys for an action of the screens, by its name in docs/keys.md: one, a list, or \"\" for none; "
        "keys.SCREEN.ACTION for one screen alone (fleet, run, start, review, replay, tutorial, search)",
    ),
    "aliases": Key("aliases.NAME", "text", "", "another name of a command of `:`, such as destroy, or view NAME"),
    "views": Key("views.NAME", "text", "", "a filter of the fleet with this name, such as is:waiting test:cart"),
}  # fmt: skip
"""Tables whose settings the user names, each with the setting that stands for all of its."""
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NAME_IN_TABLE = {"keys": re.compile(r"([a-z]+\.)?[a-z_0-9]+"), "aliases": _OWN_NAME, "views": _OWN_NAME}


def shown_named_keys() -> tuple[Key, ...]:
    """List the settings that the user names, for help and docs."""
    return tuple(_NAMED.values())


def shown_agent_keys() -> tuple[Key, ...]:
    """List the settings of agent types by their full names, for help and docs; TYPE stands for any type."""
    types = ("TYPE", *dict.fromkeys(one for key in AGENT_KEYS for one in key.types))
    return tuple(
        replace(key, name=f"{AGENT_TABLE}.{one}.{key.name}")
        for one in types
        for key in AGENT_KEYS
        if one in (key.types or ("TYPE",))
    )


def _default(name: str) -> Any:
    return _BY_NAME[name].default


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; `CONFIG_KEYS` explains each. `sources`: key → where it was set; missing: it has its default.

    Of a key that the user chose, that is the file with the line.
    """

    theme: str = _default("theme")
    sockets: tuple[str, ...] = _default("sockets")
    remote: bool = _default("remote")
    poll_probe: float = _default("poll_probe")
    poll_local: float = _default("poll_local")
    poll_remote: float = _default("poll_remote")
    poll_all: float = _default("poll_all")
    list_deadline: float = _default("list_deadline")
    agent: str = _default("agent")
    agent_command: tuple[str, ...] = _default("agent_command")
    on: str = _default("on")
    transfer: Transfer = _default("transfer")
    env: tuple[str, ...] = _default("env")
    create_args: tuple[str, ...] = _default("create_args")
    pytest_command: tuple[str, ...] = _default("pytest_command")
    setup_command: str = _default("setup_command")
    prompt: str = _default("prompt")
    max_running: int = _default("max_running")
    adapt: bool = _default("adapt")
    launch_rate: float = _default("launch_rate")
    timeout: float = _default("timeout")
    usd_per_agent: float | None = _default("usd_per_agent")
    budget_usd: float | None = _default("budget_usd")
    budget_day_usd: float | None = _default("budget_day_usd")
    budget_day_tokens: int = _default("budget_day_tokens")
    prices: tuple[str, ...] = _default("prices")
    on_cluster: OnCluster = _default("on_cluster")
    rest_after: int = _default("rest_after")
    rest_for: int = _default("rest_for")
    skip_while_open: bool = _default("skip_while_open")
    cluster_alike: int = _default("cluster_alike")
    cluster_window: int = _default("cluster_window")
    launch_retries: int = _default("launch_retries")
    lost_retries: int = _default("lost_retries")
    retry_pause: float = _default("retry_pause")
    longest_retry_pause: float = _default("longest_retry_pause")
    modal_sandboxes: int = _default("modal_sandboxes")
    modal_usd_per_hour: float = _default("modal_usd_per_hour")
    smoke: bool = _default("smoke")
    load_mngr_once: bool = _default("load_mngr_once")
    record: bool = _default("record")
    mask_env: tuple[str, ...] = _default("mask_env")
    mask_patterns: tuple[str, ...] = _default("mask_patterns")
    on_pause_command: str = _default("on_pause_command")
    notify: Notify = _default("notify")
    notify_command: str = _default("notify_command")
    verify_command: tuple[str, ...] = _default("verify_command")
    verify_jobs: int = _default("verify_jobs")
    verify_timeout: float = _default("verify_timeout")
    verify_isolation: Isolation = _default("verify_isolation")
    verify_readable: tuple[str, ...] = _default("verify_readable")
    verify_network: bool = _default("verify_network")
    verify_on_arrival: bool = _default("verify_on_arrival")
    verify_all: bool = _default("verify_all")
    publish_trailers: bool = _default("publish_trailers")
    agents: Mapping[str, Value] = field(default_factory=dict)
    """The settings of agent types that were set, by their full names, such as `agents.claude.env`."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys that the user chose, by `ACTION` or `SCREEN.ACTION`; () for none. They are checked by who has keys."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    """Filters of the fleet by name, unchecked."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def of_agent(self, agent_type: str, name: str) -> Value:
        """Return a setting of one agent type: its value, or its default."""
        return self.agents.get(_full_name(agent_type, name), _OF_AGENT[name].default)


def load_config(cwd: Path, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Config:
    """Load the settings of a program started in `cwd`.

    Later sources override earlier ones: `selftest-tui/selftest-tui.toml` in the user's configuration folder; the
    nearest folder from `cwd` upwards that has a `selftest-tui.toml` or a pyproject.toml with `[tool.selftest-tui]`;
    SELFTEST_TUI_* of `environ`; `overrides` (key → text, as flags give them). Raises ConfigError.
    """
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    for path in (_file_of_person(environ), _file_of_project(cwd)):
        if path is not None:
            for name, (value, where) in _read_file(path).items():
                values[name] = value
                sources[name] = where if name.partition(".")[0] in _NAMED else str(path)
    for variable in sorted(environ):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or name in _NO_SETTINGS:
            continue
        plain = name.lower().replace("__", ".")
        key = find_key(plain) if name == name.upper() else None
        if key is None:
            raise _unknown(plain, f"the environment variable {variable}", environment=True)
        values[key.name] = from_text(key, environ[variable], f"the environment variable {variable}", cwd)
        sources[key.name] = variable
    for name, text in (overrides or {}).items():
        key = find_key(name)
        if key is None:
            raise _unknown(name, "--set")
        values[key.name] = from_text(key, text, f"--set {name}", cwd)
        sources[key.name] = "the command line"
    plain_values = {name: value for name, value in values.items() if name in _BY_NAME}
    tables: dict[str, dict[str, Any]] = {table: {} for table in (AGENT_TABLE, *_NAMED)}
    for name, value in values.items():
        table, _, own = name.partition(".")
        if own:
            tables[table][name if table == AGENT_TABLE else own] = value
    return Config(**plain_values, **tables, sources=sources)  # type: ignore[arg-type]  # parsed by its key's kind


def find_key(name: str) -> Key | None:
    """Return the setting with this name, None for an unknown one. Those of agent types are `agents.TYPE.KEY`."""
    table, _, rest = name.partition(".")
    if table in _NAMED:
        return replace(_NAMED[table], name=name) if _NAME_IN_TABLE[table].fullmatch(rest) else None
    agent_type, _, own = rest.rpartition(".")
    key = _OF_AGENT.get(own)
    if table != AGENT_TABLE or key is None or not _AGENT_TYPE.fullmatch(agent_type):
        return _BY_NAME.get(name)
    full = _full_name(agent_type, own)
    return replace(key, name=full) if not key.types or full.split(".")[1] in key.types else None


def _full_name(agent_type: str, name: str) -> str:
    # The name of an environment variable has neither lower case nor hyphens.
    return f"{AGENT_TABLE}.{agent_type.lower().replace('-', '_')}.{name}"


def as_variables(overrides: Mapping[str, str]) -> dict[str, str]:
    """Convert overrides to environment variables, for a process in another folder, such as a conductor.

    Paths are left out: they are relative to the folder in which they were given.
    """
    return {
        key.environment_name: text
        for name, text in overrides.items()
        if (key := find_key(name)) is not None and key.kind not in ("path", "paths")
    }


def _file_of_person(environ: Mapping[str, str]) -> Path | None:
    folder = config_folder(environ)
    path = folder / FILE_NAME if folder is not None else None
    return path if path is not None and path.is_file() else None


def _file_of_project(cwd: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        own = folder / FILE_NAME
        if own.is_file():
            return own
        project = folder / "pyproject.toml"
        # A broken pyproject.toml without our table is ignored.
        if project.is_file() and _mentions_us(project):
            return project
    return None


def _mentions_us(project: Path) -> bool:
    try:
        text = project.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(r"^\s*\[\s*tool\s*\.\s*[\"']?selftest-tui[\"']?\s*\]", text, re.MULTILINE) is not None


def _read_file(path: Path) -> dict[str, tuple[Value, str]]:
    """Return the settings of a file, each with its place."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The settings in {path} cannot be read", str(error), "Repair the file, or move it away."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML", str(error), "Correct the line that the detail names.") from error
    in_project = path.name == "pyproject.toml"
    table = document.get("tool", {}).get("selftest-tui", {}) if in_project else document
    values: dict[str, tuple[Value, str]] = {}
    for name, value in _flat(table, path, text, in_table=in_project):
        where = _where(path, text, name, in_table=in_project)
        key = find_key(name)
        if key is None:
            raise _unknown(name, where)
        values[key.name] = from_toml(key, value, where, path.parent), where
    return values


def _flat(table: Mapping[str, object], path: Path, text: str, *, in_table: bool) -> list[tuple[str, object]]:
    """List the settings of a file by their full names."""
    pairs: list[tuple[str, object]] = []
    for name, value in table.items():
        if name in _NAMED and isinstance(value, dict):
            pairs += _named(name, value)
        elif name != AGENT_TABLE:
            pairs.append((name, value))
    agents = table.get(AGENT_TABLE, {})
    tables = agents.items() if isinstance(agents, dict) else ((AGENT_TABLE, None),)
    for agent_type, settings in tables:
        if not isinstance(settings, dict) or not _AGENT_TYPE.fullmatch(agent_type):
            full = f"{AGENT_TABLE}.{agent_type}" if settings is not None else AGENT_TABLE
            where = _where(path, text, full, in_table=in_table)
            raise ConfigError(f"{where}: {full} is no table of an agent type", "", "Such as [agents.claude].")
        pairs += [(f"{AGENT_TABLE}.{agent_type}.{name}", value) for name, value in settings.items()]
    return pairs


def _named(name: str, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """List the settings of a table that the user names, and of the tables in it."""
    for own, value in table.items():
        if isinstance(value, dict):
            yield from _named(f"{name}.{own}", value)
        else:
            yield f"{name}.{own}", value


def _where(path: Path, text: str, name: str, *, in_table: bool) -> str:
    """Return `FILE:LINE` of a key, or the file alone if no single line has it."""
    wanted = f"{_TABLE}.{name}" if in_table else name
    table, nearest = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line)
        written = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
        if header:
            full = table = re.sub(r"[\"'\s]", "", header.group(1))
        elif written:
            full = ".".join(filter(None, (table, re.sub(r"[\"'\s]", "", written.group(1)))))
            if wanted.startswith(f"{full}."):
                nearest = f"{path}:{number}"  # an inline table, which has it on this line or a later one
        else:
            continue
        if full == wanted or full.startswith(f"{wanted}."):
            return f"{path}:{number}"
    return nearest or str(path)


def _unknown(name: str, where: str, *, environment: bool = False) -> ConfigError:
    import difflib

    agent_type = name.split(".")[1] if name.startswith(f"{AGENT_TABLE}.") and name.count(".") > 1 else ""
    of_type = [f"{AGENT_TABLE}.{agent_type}.{key.name}" for key in AGENT_KEYS]
    known = [one for one in of_type if find_key(one) is not None] if agent_type else [*_BY_NAME, *_NAMED]
    near = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    found = find_key(near[0]) if near else None
    table = name.partition(".")[0]
    if table in _NAMED:
        return ConfigError(
            f"{where}: there is no setting {name!r}", "", f"[{table}] has settings such as {_NAMED[table].name}."
        )
    shown = (found.environment_name if environment else found.name) if found is not None else ""
    hint = f"Did you mean {shown}?" if shown else f"The settings are: {', '.join(known)}."
    return ConfigError(f"{where}: there is no setting {name!r}", "", hint)
