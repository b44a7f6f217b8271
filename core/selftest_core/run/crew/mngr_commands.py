"""Command lines and answers of mngr that only a run needs: create, rsync, exec. Pure.

SELFTEST_OUT is absolute, so an agent's folder must be known before the agent is made: the conductor chooses the target
path, and the prompt and a `.gitignore` are put there while it is made.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolOutputError
from selftest_core.git.command import GUARDED_GIT
from selftest_core.run.answer.answer import ANSWER_FILE, ANSWER_VARIABLE
from selftest_core.run.crew.crew import BUNDLE, OUTCOME, Delivery
from selftest_core.run.crew.recording import NOT_RECORDED
from selftest_core.run.fetch.received_files import LARGEST_FILE
from selftest_core.run.plan.copy_setup import setup_script
from selftest_core.run.plan.names import labels
from selftest_core.run.plan.prompt import PROMPT_FILE, TASK_FOLDER
from selftest_core.run.providers import address_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.run.crew.recording import Provision
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan

OUT = ".selftest/out"
_SAFE_VALUE = re.compile(r"[A-Za-z0-9_./:@%+=,\[\]-]*")
"""A value that a shell takes as it is."""
_UPLOADED = ".selftest/carried"
_START = f"{_UPLOADED}/start.bundle"
_SYSTEM_FOLDERS = (
    "/bin/", "/sbin/", "/usr/", "/lib/", "/lib64/", "/opt/", "/etc/", "/nix/", "/dev/", "/proc/", "/run/",
)  # fmt: skip


def create_arguments(
    plan: RunPlan,
    member: Member,
    place: str,
    folder: PurePosixPath,
    prompt: Path,
    project: str,
    withheld: Iterable[str] = (),
    uploads: Sequence[str] = (),
    recording: Provision = NOT_RECORDED,
    task: Path | None = None,
    start: Path | None = None,
) -> list[str]:
    """Build `mngr create`, to be run in the private clone. `folder`: the agent's work dir. `prompt`: a local file.

    `withheld`: variables to set to empty. `uploads`: local files of the agent's command. `recording`: how it is
    recorded on its host. `task`: a local folder with the files of its task. `start`: a local bundle with the commits
    that it starts from, those of its answer.
    """
    variables = {
        "SELFTEST_RUN": plan.run,
        "SELFTEST_ROLE": plan.role,
        "SELFTEST_TEST": member.node_id,
        "SELFTEST_BASE": plan.base,
        "SELFTEST_OUT": str(folder / OUT),
        "SELFTEST_PROMPT_FILE": str(folder / PROMPT_FILE),
    }
    made = shlex.quote(str(folder / ".selftest"))
    prepare = f"mkdir -p {made}/out && printf '*\\n' > {made}/.gitignore"
    if member.answer is not None:
        variables[ANSWER_VARIABLE] = member.answer.text
    uploaded = upload_paths(uploads, folder / _UPLOADED)
    if uploaded:
        prepare += f" && chmod 700 {shlex.join(map(str, uploaded.values()))}"
    if recording.command:
        prepare += f" && {{ {recording.command}; }}"
    arguments = [
        "create", f"{member.name}{address_suffix(place)}", "--id", member.agent_id, "--type", plan.agent_type,
        "--no-connect", "--headless", "--yes", "--format", "json", "--no-ensure-clean", "--exclude-unclean",
        "--transfer", "git-mirror" if plan.transfer == "mirror" else "git-worktree",
        "--target-path", str(folder), "--project", project, "--extra-provision-command", prepare,
        "--upload-file", f"{prompt}:{folder / PROMPT_FILE}",
    ]  # fmt: skip
    if task is not None:
        for given in sorted(one for one in task.rglob("*") if one.is_file()):
            arguments += ["--upload-file", f"{given}:{folder / TASK_FOLDER / given.relative_to(task)}"]
    if start is not None and member.answer is not None:
        arguments += ["--upload-file", f"{start}:{folder / _START}"]
        arguments += ["--extra-provision-command", start_script(folder, member.answer.start)]
    if plan.setup_command:
        arguments += ["--extra-provision-command", setup_script(plan.setup_command, folder)]
    for file, there in uploaded.items():
        arguments += ["--upload-file", f"{file}:{there}"]
    arguments += [word for file, there in recording.uploads for word in ("--upload-file", f"{file}:{there}")]
    for name, value in labels(plan.run, member.node_id, plan.role if member.node_id else "smoke").items():
        arguments += ["--label", f"{name}={value}"]
    for name, value in variables.items():
        arguments += ["--env", f"{name}={sourced(value)}"]
    fixed = {pair.partition("=")[0] for pair in plan.agent_env}
    for pair in (*plan.agent_env, *(f"{name}=" for name in withheld if name not in fixed)):
        arguments += ["--env", pair]
    for name in plan.env_names:
        arguments += ["--pass-env", name]
    for setting in plan.agent_settings:
        arguments += ["-S", setting]
    arguments += plan.create_args
    command = [str(uploaded.get(word, word)) for word in plan.agent_command or ()]
    return [*arguments, "--", *command] if command else arguments


def sourced(text: str) -> str:
    """Escape a text for `--env NAME=text`, so that the variable has exactly this text and nothing of it is executed.

    mngr writes variables into a file that a shell reads. It puts double quotes around values with a blank, a quote or a
    line break, and escapes only double quotes in them (0.3.0). The text may be an agent's, such as the subject of its
    commit.
    """
    if _SAFE_VALUE.fullmatch(text):
        return text
    if any(letter in text for letter in " \"'\n"):
        return re.sub(r"([\\$`])", r"\\\1", text)
    return re.sub(r"([\x00-\x2c\x3b-\x40\x5b-\x5e\x60\x7b-\x7f])", r"\\\1", text)


def files_to_upload(command: Sequence[str] | None) -> tuple[str, ...]:
    """Return the words of an agent's command that are local files and must be uploaded to a remote host, each once.

    That makes `--agent-command ./agent.sh` work remotely. Files in system folders are expected there too, and relative
    paths belong to the repository, which the agent has anyway.
    """
    words = dict.fromkeys(command or ())
    return tuple(
        word for word in words if word.startswith("/") and not word.startswith(_SYSTEM_FOLDERS) and Path(word).is_file()
    )


def upload_paths(files: Sequence[str], folder: PurePosixPath) -> dict[str, PurePosixPath]:
    """Return the remote path of each file: in a folder of its own, so that its name, as `ps` shows it, stays."""
    return {file: folder / str(number) / PurePosixPath(file).name for number, file in enumerate(files)}


def parse_created(text: str) -> str:
    """Parse the host's id from the output of `create --format json`. Raises ToolOutputError."""
    try:
        said = json.loads(text.strip().splitlines()[-1])
        host_id = said["host_id"]
    except (ValueError, IndexError, KeyError, TypeError):
        host_id = None
    if not isinstance(host_id, str) or not host_id:
        raise ToolOutputError("mngr did not say where it made the agent", text.strip()[-500:])
    return host_id


def rsync_arguments(member: Member, staging: Path) -> list[str]:
    """Build `mngr rsync` of the agent's out folder into `staging`. Never starts a host."""
    return [
        "rsync", f"{member.address}:{OUT}/", f"{staging}/", "--no-start", "--uncommitted-changes", "clobber", "--",
        *rsync_limits(),
    ]  # fmt: skip


def rsync_limits() -> tuple[str, ...]:
    """Return rsync's arguments that exclude links, devices and too large files."""
    return ("--no-links", "--no-devices", "--no-specials", f"--max-size={LARGEST_FILE + 1}")


def bundle_script(base: str) -> str:
    """Build a script that bundles the commits of HEAD over the base, if there are any and the agent wrote none."""
    draft, bundle, git = f"{OUT}/.{BUNDLE}.draft", f"{OUT}/{BUNDLE}", GUARDED_GIT
    return (
        f"mkdir -p {OUT}; test -s {bundle} || {{ "
        f'n=$({git} rev-list --count {base}..HEAD) && {{ test "$n" = 0 || '
        f"{{ {git} bundle create -q {draft} {base}..HEAD && mv -f {draft} {bundle}; }}; }}; }}"
    )


def start_script(folder: PurePosixPath, start: str) -> str:
    """Build a script that moves the branch of a new copy to a commit of the uploaded bundle."""
    bundle = shlex.quote(str(folder / _START))
    return (
        f"cd {shlex.quote(str(folder))} && {GUARDED_GIT} bundle unbundle {bundle} >/dev/null && "
        f"{GUARDED_GIT} reset --hard -q {start} && rm -f {bundle}"
    )


def answer_script(attempt: int, page: str) -> str:
    """Build a script that renames the results of the attempt before `attempt` away and writes the answer's page.

    A link in the way is removed, not followed. Repeated, it does nothing to results that are away already.
    """
    draft = f"{ANSWER_FILE}.draft"
    steps = [f"mkdir -p {OUT}", f"rm -rf {draft} {ANSWER_FILE}"]
    for name in (OUTCOME, BUNDLE):
        away = f".selftest/attempt-{attempt - 1}-{name}"
        steps.append(
            f"{{ test ! -e {OUT}/{name} && test ! -L {OUT}/{name} || {{ rm -rf {away}; mv {OUT}/{name} {away}; }}; }}"
        )
    letters = base64.b64encode(page.encode()).decode()
    steps.append(f"printf %s {letters} | base64 -d > {draft} && mv {draft} {ANSWER_FILE}")
    return " && ".join(steps)


def stamp_script() -> str:
    """Build a script that prints a stamp of the outcome file, and `+` if there is a bundle. GNU and BSD."""
    path = f"{OUT}/{OUTCOME}"
    stamp = f"stat -c %s-%Y {path} 2>/dev/null || stat -f %z-%m {path} 2>/dev/null"
    return f"if test -f {path} && test -s {path}; then {stamp}; test -s {OUT}/{BUNDLE} && echo +; fi; true"


def parse_stamp(text: str) -> tuple[str, bool]:
    """Parse the output of `stamp_script`: the stamp, empty without a file, and whether there is a bundle."""
    words = text.split()
    return (words[0][:80], "+" in words[1:]) if words else ("", False)


def delivery_script(text: str) -> str:
    """Build a script that prints `yes` or `no`: whether Claude Code's transcripts of the agent have the text."""
    logs = '"$MNGR_AGENT_STATE_DIR"/plugin/claude/anthropic'
    return (
        f"test -d {logs} || exit 0; "
        f"grep -q -r -F -e {shlex.quote(text)} {logs}/projects 2>/dev/null && echo yes || echo no"
    )


def parse_delivery(text: str) -> Delivery:
    """Parse the output of `delivery_script`."""
    words = text.split()
    return next((kind for kind in (Delivery.YES, Delivery.NO) if kind in words), Delivery.UNKNOWN)


def screen_script() -> str:
    """Build a script that prints the screen of the agent in whose work dir it runs, found by mngr's stamp.

    `mngr capture` takes one agent at a time, and refuses where its program has ended.
    """
    return (
        'id=$(basename "$PWD"); pane=$(tmux list-panes -a -F "#{pane_id} #{@mngr_agent_id}" | '
        'grep " $id$" | head -n 1 | cut -d " " -f 1); '
        'test -z "$pane" || tmux capture-pane -p -J -S -200 -t "$pane"'
    )


def exec_arguments(members: Sequence[Member], script: str, seconds: float) -> list[str]:
    """Build `mngr exec` on agents, which need not run. Never starts a host."""
    addresses = [member.address for member in members]
    return [
        "exec", *addresses, script, "--no-start", "--format", "json", "--on-error", "continue",
        "--timeout", f"{seconds:g}",
    ]  # fmt: skip


def parse_exec(text: str) -> dict[str, tuple[bool, str]]:
    """Parse success and output of an exec by agent name. Empty if mngr did not answer."""
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
