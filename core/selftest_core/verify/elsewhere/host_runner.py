"""Run test jobs on another host. It is uploaded there alone: only the standard library, Python 3.8 or newer.

    host_runner.py serve FOLDER                      the command of the agent: run one job after the other
    host_runner.py follow FOLDER JOB OFFSET SECONDS  start a job, wait for news of it, and print them as JSON

FOLDER/jobs/JOB/ is uploaded whole before the job is started: `job.json`, the plugin, its orders, and a pack of the
objects that the host does not have. What tests write there is untrusted: the reader at home judges it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TICK = 0.05
"""Seconds between two looks at files, for whose changes no event exists on every system."""
LONGEST_NEWS = 1 << 20
KEPT_OUTPUT = 100000
LARGEST_FILE = 2 * 1024**3


def serve(folder: Path) -> None:
    """Run the wanted job, until the agent is ended."""
    write(folder, "serving", str(os.getpid()))
    done = ""
    while True:
        job = read(folder, "wanted")
        if job and job != done:
            done = job
            Job(folder, job).hold()
        time.sleep(TICK)


def follow(folder: Path, job: str, offset: int, seconds: float) -> None:
    """Print what is new of a job: results from `offset` on, and how it ended."""
    if read(folder, "wanted") != job:
        write(folder, "wanted", job)
    home = folder / "jobs" / job
    until = time.time() + seconds
    while True:
        ended = read(home, "ended.json")
        data = b""
        with contextlib.suppress(OSError), (home / "results").open("rb") as file:
            file.seek(offset)
            data = file.read(LONGEST_NEWS)
        is_serving = _is_alive(read(folder, "serving"))
        if data or ended or not is_serving or time.time() > until:
            break
        time.sleep(TICK)
    news = {"data": base64.b64encode(data).decode(), "ended": json.loads(ended) if ended else None}
    print(json.dumps(dict(news, serving=is_serving)))


class Job:
    """One job: a tree, and pytest on it."""

    def __init__(self, folder: Path, job: str) -> None:
        self.folder, self.name = folder, job
        self.home = folder / "jobs" / job
        self.tree = folder / "tree"
        self.results = self.home / "results"
        self.job: Any = json.loads((self.home / "job.json").read_text(encoding="utf-8"))

    def hold(self) -> None:
        """Run it, and write how it ended."""
        ended: Any = {"status": None, "timeout": False, "output": "", "failure": ""}
        try:
            self.lay()
            self.set_up()
            ended.update(self.test())
        except Exception as error:
            ended["failure"] = f"{type(error).__name__}: {str(error)[-2000:]}"
        write(self.home, "ended.json", json.dumps(ended))

    def lay(self) -> None:
        """Lay out the tree, and nothing else but the environment that a set-up made."""
        objects = self.folder / "objects.git"
        if not objects.is_dir():
            self.git("init", "-q", "--bare", str(objects))
        pack = self.home / "objects.pack"
        at = (f"--git-dir={objects}", f"--work-tree={self.tree}")
        if pack.exists():
            with pack.open("rb") as file:
                self.git(at[0], "unpack-objects", "-q", stdin=file)
        self.tree.mkdir(parents=True, exist_ok=True)
        self.git(*at, "read-tree", "--reset", "-u", self.job["tree"])
        self.git(*at, "checkout-index", "-q", "--all", "--force")
        self.git(*at, "clean", "-q", "-ffdx", "-e", ".venv")
        dirt = self.git(*at, "status", "--porcelain", "--ignored", "--untracked-files=all", "--ignore-submodules=all")
        left = [line for line in dirt.splitlines() if line[1:2] != " " and not line.startswith("!! .venv")]
        if left:
            raise RuntimeError("the tree cannot be laid out as it is: " + "\n".join(left)[:500])

    def git(self, *arguments: str, **options: Any) -> str:
        environment = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_TERMINAL_PROMPT="0")
        environment["GIT_INDEX_FILE"] = str(self.folder / "index")
        done = subprocess.run(
            (*self.job["git"], "-c", "core.bare=false", *arguments), cwd=self.folder, env=environment,
            stdin=options.get("stdin", subprocess.DEVNULL), capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"git {arguments[-1]}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def set_up(self) -> None:
        """Make the environment of the tree, and its package cache: nothing that another tree installed is used."""
        command, packages = self.job["setup"], self.folder / "packages"
        if not command or read(self.folder, "set-up") == self.job["tree"]:
            return
        write(self.folder, "set-up", "")
        for path in (self.tree / ".venv", packages):
            shutil.rmtree(path, ignore_errors=True)
        caches = {
            "XDG_CACHE_HOME": packages, "UV_CACHE_DIR": packages / "uv", "PIP_CACHE_DIR": packages / "pip",
            "npm_config_cache": packages / "npm",
        }  # fmt: skip
        environment = dict(os.environ, **{name: str(path) for name, path in caches.items()})
        done = subprocess.run(
            ("sh", "-c", command), cwd=self.tree, env=dict(environment, **self.job["variables"]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace")[-1500:]
            raise RuntimeError(f"setup_command failed with exit status {done.returncode}: {said}")
        write(self.folder, "set-up", self.job["tree"])

    def test(self) -> dict[str, Any]:
        """Run pytest, and end it with all that it started."""
        for name in ("home", "tmp"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        own = self.tree / ".venv" / "bin" / "python"
        command = self.job["command"] or [str(own) if own.exists() else sys.executable, "-m", "pytest"]
        files = [name for name in self.job["files"] if (self.tree / name).exists()]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "CI": "true",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", "PYTEST_ADDOPTS": "",
        }  # fmt: skip
        environment.update(self.job["variables"])
        environment.update(HOME=str(self.folder / "home"), TMPDIR=str(self.folder / "tmp"))
        environment.update(PYTHONPATH=str(self.home), SELFTEST_VERIFY=str(self.home / "orders.json"))
        if "MNGR_AGENT_ID" in os.environ:  # mngr ends what has it with the agent
            environment["MNGR_AGENT_ID"] = os.environ["MNGR_AGENT_ID"]
        argv = [*command, "-p", self.job["plugin"], "-p", "no:cacheprovider", "--", *files]
        output = self.home / "output"
        with self.results.open("xb"), output.open("wb") as file:
            process = subprocess.Popen(
                argv, cwd=self.tree, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, preexec_fn=_limit,
            )  # fmt: skip
            was_timeout = self.wait(process)
        return {"status": process.returncode, "timeout": was_timeout, "output": _ends_of(output)}

    def wait(self, process: Any) -> bool:
        """Wait for its end, or until it shows nothing for too long, or another job is wanted."""
        size, last, began = 0, time.monotonic(), False
        try:
            while process.poll() is None and read(self.folder, "wanted") == self.name:
                now = self.results.stat().st_size if self.results.exists() else size
                if now != size:
                    began, size, last = began or size > 0, now, time.monotonic()
                if time.monotonic() - last > (self.job["timeout"] if began else self.job["start_timeout"]):
                    return True
                time.sleep(TICK)
            return False
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end_orphans(self.home)


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def _end_orphans(home: Path) -> None:
    """End what left the process group, by the variable that it inherited."""
    mark = f"SELFTEST_VERIFY={home / 'orders.json'}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _ends_of(path: Path) -> str:
    """The first and the last of what a program printed."""
    with path.open("rb") as file:
        head = file.read(KEPT_OUTPUT // 2)
        size = os.fstat(file.fileno()).st_size
        file.seek(max(len(head), size - KEPT_OUTPUT // 2))
        return (head + file.read()).decode("utf-8", "replace")


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, OSError):
        return False
    return True


def read(folder: Path, name: str) -> str:
    """Read a small file; empty where there is none."""
    try:
        with (folder / name).open(encoding="utf-8") as file:
            return file.read(1 << 20)
    except (OSError, ValueError):
        return ""


def write(folder: Path, name: str, text: str) -> None:
    """Write a small file, whole or not at all."""
    draft = folder / f".{name}.{os.getpid()}"
    draft.write_text(text, encoding="utf-8")
    draft.replace(folder / name)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]))
    else:
        follow(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
