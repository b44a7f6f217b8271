"""The command lines and answers of mngr that only a run needs: create, rsync, exec, capture. Pure.

Where an agent's folder is has to be known before it is made, since SELFTEST_OUT is absolute: so the target path is
ours to choose, and the prompt and a `.gitignore` are put there while it is made.
"""

from __future__ import annotations

import json
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import ToolOutputError
from selftest_core.run.crew.crew import BUNDLE, OUTCOME, Heard
from selftest_core.run.crew.recording import NOT_RECORDED
from selftest_core.run.crew.upload import carried_to
from selftest_core.run.fetch.received_files import LARGEST_FILE
from selftest_core.run.plan.names import labels
from selftest_core.run.plan.prompt import PROMPT_FILE
from selftest_core.run.plan.setting_up import setup_script
from selftest_core.run.smoke import smoke_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from selftest_core.run.crew.recording import Provision
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan

OUT = ".selftest/out"
_CARRIED = ".selftest/carried"
_REMOTE_COPIES = PurePosixPath("/tmp/selftest-copies")


def places(provider: str) -> tuple[str, ...]:
    """Where a plan's agents go: one provider or host (`modal`, `box.pool`), or several with commas between."""
    return tuple(dict.fromkeys(filter(None, (place.strip() for place in provider.split(","))))) or (LOCAL_PROVIDER,)


def provider_of(place: str) -> str:
    """The provider's own name: a place may name a host of it, as `box.pool`."""
    return place.rpartition(".")[2]


def providers_of(provider: str) -> tuple[str, ...]:
    """The providers of all places of a plan, each once."""
    return tuple(dict.fromkeys(provider_of(place) for place in places(provider)))


def place_of(plan: RunPlan, member: Member) -> str:
    """Where this attempt is made: tests take turns, and so do a test's attempts, so a second try leaves a bad host."""
    if not member.node_id:
        proven = (one for one in plan.smoke if smoke_of(plan, one, member.attempt).agent_id == member.agent_id)
        return next(proven, LOCAL_PROVIDER)
    among = places(plan.provider)
    if len(among) == 1:
        return among[0]
    number = next((n for n, test in enumerate(plan.tests) if test.agent_name == member.test), 0)
    return among[(number + member.attempt - 1) % len(among)]


def work_dir(place: str, member: Member, host_dir: Path) -> PurePosixPath:
    """Where the agent's copy of the repository will be, on its host."""
    copies = PurePosixPath(host_dir) / "copies" if place == LOCAL_PROVIDER else _REMOTE_COPIES
    return copies / member.agent_id


def create_arguments(
    plan: RunPlan,
    member: Member,
    place: str,
    folder: PurePosixPath,
    prompt: Path,
    project: str,
    withheld: Iterable[str] = (),
    carried: Sequence[str] = (),
    recording: Provision = NOT_RECORDED,
) -> list[str]:
    """`mngr create`, run inside the private clone. `folder`: the agent's work dir. `prompt`: a file of this machine.

    `withheld`: variables that its shell would inherit and must not have; a tmux session can only be given empty ones.
    `carried`: files of this machine that the command names, and that go along. `recording`: what records it there.
    """
    where = "" if place == LOCAL_PROVIDER else f"@{'' if '.' in place else '.'}{place}"
    variables = {
        "SELFTEST_RUN": plan.run,
        "SELFTEST_TEST": member.node_id,
        "SELFTEST_BASE": plan.base,
        "SELFTEST_OUT": str(folder / OUT),
        "SELFTEST_PROMPT_FILE": str(folder / PROMPT_FILE),
    }
    made = shlex.quote(str(folder / ".selftest"))
    prepare = f"mkdir -p {made}/out && printf '*\\n' > {made}/.gitignore"
    taken = carried_to(carried, folder / _CARRIED)
    if taken:
        prepare += f" && chmod 700 {shlex.join(map(str, taken.values()))}"
    if recording.command:
        prepare += f" && {{ {recording.command}; }}"
    arguments = [
        "create", f"{member.name}{where}", "--id", member.agent_id, "--type", plan.agent_type,
        "--no-connect", "--headless", "--yes", "--format", "json", "--no-ensure-clean", "--exclude-unclean",
        "--transfer", "git-mirror" if plan.transfer == "mirror" else "git-worktree",
        "--target-path", str(folder), "--project", project, "--extra-provision-command", prepare,
        "--upload-file", f"{prompt}:{folder / PROMPT_FILE}",
    ]  # fmt: skip
    if plan.setup_command:
        arguments += ["--extra-provision-command", setup_script(plan.setup_command, folder)]
    for file, there in taken.items():
        arguments += ["--upload-file", f"{file}:{there}"]
    arguments += [word for file, there in recording.uploads for word in ("--upload-file", f"{file}:{there}")]
    for name, value in labels(plan.run, member.node_id, "tester" if member.node_id else "smoke").items():
        arguments += ["--label", f"{name}={value}"]
    for name, value in variables.items():
        arguments += ["--env", f"{name}={value}"]
    fixed = {pair.partition("=")[0] for pair in plan.agent_env}
    for pair in (*plan.agent_env, *(f"{name}=" for name in withheld if name not in fixed)):
        arguments += ["--env", pair]
    for name in plan.env_names:
        arguments += ["--pass-env", name]
    for setting in plan.agent_settings:
        arguments += ["-S", setting]
    arguments += plan.create_args
    command = [str(taken.get(word, word)) for word in plan.agent_command or ()]
    return [*arguments, "--", *command] if command else arguments


def parse_created(text: str) -> str:
    """The host's id from what `create --format json` printed. Raises ToolOutputError."""
    try:
        said = json.loads(text.strip().splitlines()[-1])
        host_id = said["host_id"]
    except (ValueError, IndexError, KeyError, TypeError):
        host_id = None
    if not isinstance(host_id, str) or not host_id:
        raise ToolOutputError("mngr did not say where it made the agent", text.strip()[-500:])
    return host_id


def rsync_arguments(member: Member, staging: Path) -> list[str]:
    """Copy the agent's out folder into `staging`, without links, devices and giants. Never starts a host."""
    return [
        "rsync", f"{member.address}:{OUT}/", f"{staging}/", "--no-start", "--uncommitted-changes", "clobber", "--",
        *rsync_limits(),
    ]  # fmt: skip


def rsync_limits() -> tuple[str, ...]:
    """rsync's own arguments: nothing but plain files and folders, and no giants."""
    return ("--no-links", "--no-devices", "--no-specials", f"--max-size={LARGEST_FILE + 1}")


def bundle_script(base: str) -> str:
    """Writes the bundle of what HEAD has over the base, where the agent wrote none and there is something."""
    draft, bundle = f"{OUT}/.{BUNDLE}.draft", f"{OUT}/{BUNDLE}"
    git = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false"
    return (
        f"mkdir -p {OUT}; test -s {bundle} || {{ "
        f'n=$({git} rev-list --count {base}..HEAD) && {{ test "$n" = 0 || '
        f"{{ {git} bundle create -q {draft} {base}..HEAD && mv -f {draft} {bundle}; }}; }}; }}"
    )


def stamp_script() -> str:
    """Prints a stamp of the outcome file and `+` where there is a bundle; nothing without the file. GNU and BSD."""
    path = f"{OUT}/{OUTCOME}"
    stamp = f"stat -c %s-%Y {path} 2>/dev/null || stat -f %z-%m {path} 2>/dev/null"
    return f"if test -f {path} && test -s {path}; then {stamp}; test -s {OUT}/{BUNDLE} && echo +; fi; true"


def parse_stamp(text: str) -> tuple[str, bool]:
    """The stamp of the outcome file, empty where there is none, and whether there is a bundle."""
    words = text.split()
    return (words[0][:80], "+" in words[1:]) if words else ("", False)


def heard_script(text: str) -> str:
    """Prints `yes` where Claude Code's transcripts of this agent have the text, `no` where they do not."""
    logs = '"$MNGR_AGENT_STATE_DIR"/plugin/claude/anthropic'
    return (
        f"test -d {logs} || exit 0; "
        f"grep -q -r -F -e {shlex.quote(text)} {logs}/projects 2>/dev/null && echo yes || echo no"
    )


def parse_heard(text: str) -> Heard:
    """What `heard_script` printed."""
    words = text.split()
    return next((kind for kind in (Heard.YES, Heard.NO) if kind in words), Heard.UNKNOWN)


def screen_script() -> str:
    """Prints the screen of the agent in whose work dir it runs, found by mngr's own stamp on its session.

    `mngr capture` takes one agent at a time, and refuses where its program has ended, when its last words matter most.
    """
    return (
        'id=$(basename "$PWD"); pane=$(tmux list-panes -a -F "#{pane_id} #{@mngr_agent_id}" | '
        'grep " $id$" | head -n 1 | cut -d " " -f 1); '
        'test -z "$pane" || tmux capture-pane -p -J -S -200 -t "$pane"'
    )


def exec_arguments(members: Sequence[Member], script: str, seconds: float) -> list[str]:
    """`mngr exec` on some agents, which need not run; never starts a host."""
    addresses = [member.address for member in members]
    return [
        "exec", *addresses, script, "--no-start", "--format", "json", "--on-error", "continue",
        "--timeout", f"{seconds:g}",
    ]  # fmt: skip


def parse_exec(text: str) -> dict[str, tuple[bool, str]]:
    """By agent name: whether the script succeeded, and its output. Empty where mngr did not answer."""
    try:
        said: Any = json.loads(text)
        results = said["results"]
        return {
            str(one["agent"]): (one.get("success") is True, str(one.get("stdout") or one.get("stderr") or ""))
            for one in results
            if isinstance(one, dict) and "agent" in one
        }
    except (ValueError, KeyError, TypeError):
        return {}
