"""Try every way in as an ordinary user: install what README says, and run what depends on rights and places.

Root makes a user for it, with a home of mode 700, and removes both at the end; anybody else tries it as themselves,
with a home of its own. The last commit is cloned into a folder with a space, which is used through a link, and once
more below /tmp. Ends with 1 at the first failure, whose output is shown.

It runs before there is any environment, so it imports the standard library alone.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STEP_TIMEOUT = 1800.0
PASSED_ON = re.compile(r"(PIP|UV|SSL_CERT|npm_config)_\w+|\w+_proxy|[A-Z]+_PROXY|NODE_EXTRA_CA_CERTS")
"""Variables of the caller that say how packages are fetched."""
PLACES = [
    "tests/core/actions/test_attach_ssh.py", "tests/core/review/test_guards.py", "tests/core/review/test_publishing.py",
    "tests/core/verify/test_control.py", "tests/core/verify/test_elsewhere.py",
    "tests/core/verify/test_environment.py", "tests/core/verify/test_runner.py", "tests/core/verify/test_sandbox.py",
    "tests/core/verify/test_setup.py", "tests/e2e/test_tutorial_review.py",
]  # fmt: skip
BELOW_TMP = ["tests/core/verify/test_environment.py", "tests/core/verify/test_sandbox.py"]


def say(text: str) -> None:
    sys.stderr.write(f"desk: {text}\n")
    sys.stderr.flush()


def step(
    name: str,
    argv: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
    *,
    status: int = 0,
    cwd: Path | None = None,
) -> str:
    """Run a program to its end and return its stdout. Ends this one with 1 where it does not end with `status`."""
    began = time.monotonic()
    words = [str(word) for word in argv]
    environ = {**os.environ, **(variables or {})}
    done = subprocess.run(
        words, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=STEP_TIMEOUT,
    )  # fmt: skip
    if done.returncode != status:
        sys.stderr.write(done.stdout + done.stderr)
        say(f"FAILED: {name}: {shlex.join(words)} ended with {done.returncode}")
        raise SystemExit(1)
    say(f"{name}: {time.monotonic() - began:.0f} s")
    return done.stdout


# As the user, in the clone


def try_place(place: Path, *, briefly: bool) -> None:
    """Set up a clone, which is the current folder, show the demo, and run tests."""
    os.environ["PWD"] = str(place)
    step("make venv", ["make", "venv"])
    # make calls it a success that the demo leaves work for a person.
    step("make demo", ["make", "demo", "ARGS=--batch"])
    if not briefly:
        try_installations(place, Path.home())
    del os.environ["PYTHON"]
    tests = BELOW_TMP if briefly else PLACES
    told = step("tests", [".venv/bin/python", "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *tests])
    for line in told.splitlines():
        if line.startswith("SKIPPED") or " passed" in line:
            say(f"  {line}")


def try_installations(place: Path, home: Path) -> None:
    """Install what README says with uv, pip and pipx, each anew, and try each; then npm's packages without root."""
    python = os.environ["PYTHON"]
    step("a wheel", [".venv/bin/python", "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"])
    (wheel,) = (place / "dist").glob("*.whl")
    # What the set-up keeps has all that the lock names. Where it keeps nothing, the index is asked.
    kept = home / ".cache" / "selftest-tui" / "wheels"
    is_kept = kept.is_dir() and any(kept.iterdir())
    for_uv = ["--no-index", "--find-links", str(kept)] if is_kept else []
    for_pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(kept)} if is_kept else {}

    programs = home / ".local" / "bin"
    line = of_readme("uv tool install")
    step(shlex.join(line), [".venv/bin/uv", *line[1:3], *for_uv, *line[3:]], {"UV_PYTHON": python})
    use(programs, home)
    shutil.rmtree(home / ".local" / "share" / "uv")
    shutil.rmtree(programs)

    environment = home / "environment" / "bin"
    step("an environment", [python, "-m", "venv", environment.parent])
    step("pip install WHEEL[claude]", [environment / "pip", "install", f"{wheel}[claude]"], for_pip)
    use(environment, home)

    tools = home / "tools" / "bin"
    step("an environment", [python, "-m", "venv", tools.parent])
    step("pip install pipx", [tools / "pip", "install", "pipx"])
    pipx: list[str | Path] = [tools / "pipx", "install", "--python", python, f"{wheel}[claude]"]
    # pipx itself asks the index, for the newest pip.
    step("pipx install WHEEL[claude]", pipx, {"PIP_FIND_LINKS": str(kept)} if is_kept else {})
    use(programs, home)

    if shutil.which("npm") is None:
        say("SKIPPED: npm is not installed")
        return
    package = home / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "tried", "version": "1.0.0", "bin": "tried"}')
    (package / "tried").write_text("#!/bin/sh\n")
    words = [word.replace("~", str(home)) for word in of_readme("npm install")[:-1]]
    step(shlex.join(words), [*words, package])
    step("its program", [programs / "tried"])


def of_readme(beginning: str) -> list[str]:
    """Return the words of the line of README that begins so."""
    (line,) = [line for line in README.splitlines() if line.startswith(beginning)]
    return shlex.split(line, comments=True)


def use(folder: Path, home: Path) -> None:
    """Use what was installed into a folder, in a home that no mngr has been used in."""
    for used in (home / ".mngr", home / ".local" / "state"):
        shutil.rmtree(used, ignore_errors=True)
    program = folder / "selftest-tui"
    variables = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    checks = json.loads(step("doctor", [program, "doctor", "--json"], variables, cwd=home))["checks"]
    if ("mngr settings", "ok") not in {(check["name"], check["status"]) for check in checks}:
        say(f"FAILED: doctor does not find mngr well: {checks}")
        raise SystemExit(1)
    step("list", [program, "list"], variables, cwd=home)
    told = step("demo", [program, "demo", "--batch"], variables, status=1, cwd=home)
    if json.loads(told.splitlines()[-1])["event"] != "summary":
        say("FAILED: the demo ended without its summary")
        raise SystemExit(1)


# As the caller


def main() -> None:
    dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout
    if dirty:
        say("what is not committed is not tried")
    can_make_user = os.geteuid() == 0 and shutil.which("useradd") and shutil.which("runuser")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    with tempfile.TemporaryDirectory(prefix="desk-", dir="/tmp") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        if not can_make_user:
            say("SKIPPED: only root makes an ordinary user; all is tried as you")
            (scratch / "home").mkdir(mode=0o700)
            try_as(pwd.getpwuid(os.geteuid()).pw_name, scratch / "home", [], scratch)
            return
        user = f"desk-{os.getpid()}"
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", user], check=True)
        try:
            home = Path(pwd.getpwnam(user).pw_dir)
            home.chmod(0o700)
            try_as(user, home, ["runuser", "-u", user, "--"], scratch)
        finally:
            remove_user(user)


def try_as(user: str, home: Path, prefix: list[str], scratch: Path) -> None:
    """Clone the checkout into its places and try each; `prefix` makes a command one of the user's."""
    subprocess.run(["git", "bundle", "create", "-q", scratch / "bundle", "HEAD"], cwd=ROOT, check=True)
    python = Path(sys.executable).resolve()
    if subprocess.run([*prefix, python, "-c", ""], cwd="/", capture_output=True, check=False).returncode != 0:
        python = copy_python(Path(sys.base_prefix), home / ".pyenv" / "versions" / "copied")
    # Fetched packages come along: how they are fetched does not depend on the user.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "selftest-tui" / "wheels"
    if cache.is_dir():
        shutil.copytree(cache, home / ".cache" / "selftest-tui" / "wheels")
    below_tmp = scratch / "below"
    below_tmp.mkdir()
    if prefix:
        subprocess.run(["chown", "-R", f"{user}:", home, below_tmp], check=True)
    environ = {
        **{name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)},
        "HOME": str(home), "USER": user, "LOGNAME": user, "SHELL": "/bin/sh", "TERM": "xterm-256color",
        "LANG": "C.UTF-8", "PYTHON": str(python),
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/opt/homebrew/bin",
    }  # fmt: skip
    link = home / "link"
    for folder, place, flag in (
        (home / "a folder" / "self test", link, "--inside"),
        (below_tmp / "clone", below_tmp / "clone", "--briefly-inside"),
    ):
        say(f"in {folder}{f', through the link {link}' if place == link else ''}")
        script = (
            f'git -c advice.detachedHead=false clone -q {scratch}/bundle "$1" && '
            '{ [ "$1" = "$2" ] || ln -s "$1" "$2"; } && cd "$2" && exec "$PYTHON" scripts/ways_in.py "$3" "$2"'
        )
        argv = [*prefix, "sh", "-c", script, "sh", str(folder), str(place), flag]
        if subprocess.run(argv, cwd="/", env=environ, check=False).returncode != 0:
            raise SystemExit(1)


def copy_python(source: Path, target: Path) -> Path:
    """Copy an interpreter that lies where only its owner reads, such as root's pyenv; return the program."""
    unwanted = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
    shutil.copytree(source, target, symlinks=True, ignore=unwanted)
    old = f"{source / 'lib'}\0".encode()
    new = b"$ORIGIN/../lib".ljust(len(old), b"\0")
    for path in [*(target / "bin").iterdir(), *(target / "lib").glob("lib*.so*")]:
        # It finds its library by a path that is written into it.
        if path.is_file() and not path.is_symlink() and old in (data := path.read_bytes()):
            path.write_bytes(data.replace(old, new))
    return target / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def remove_user(user: str) -> None:
    """End all programs of the user, and remove the user with all files."""
    number = pwd.getpwnam(user).pw_uid
    while found := owned_by(number, Path("/proc")):
        for path in found:
            try:
                os.kill(int(path.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)  # nothing tells that a stranger's child has ended
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        for path in owned_by(number, Path(folder)):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    # By force, as a process that has ended keeps its user until its parent has asked for its end.
    subprocess.run(["userdel", "--force", "--remove", user], check=True, stderr=subprocess.DEVNULL)


def owned_by(number: int, folder: Path) -> list[Path]:
    """List what a user has in a folder; in /proc, their processes that live."""
    found = []
    for path in folder.iterdir():
        try:
            if path.lstat().st_uid == number and (folder != Path("/proc") or (path / "cmdline").read_bytes()):
                found.append(path)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


if __name__ == "__main__":
    if len(sys.argv) == 3:
        try_place(Path(sys.argv[2]), briefly=sys.argv[1] == "--briefly-inside")
    else:
        main()
