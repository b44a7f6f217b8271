"""Variables of this machine that an agent does not get: all that the user did not name and that may be private.

A remote agent inherits nothing from here. A local one starts in the user's tmux server and inherits its environment
(tokens, the ssh agent, keyrings). mngr can set a variable of a session but not unset one, so a withheld variable is set
to empty. Variables that programs need stay: paths, toolchains, language, terminal. This keeps secrets out of an agent's
environment, not out of its reach: it runs as the user and can read their files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.tools.tmux import Tmux

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KEPT = frozenset({
    "CI", "COLORTERM", "COLUMNS", "CPATH", "EDITOR", "FORCE_COLOR", "GOPATH", "GOROOT", "HOME", "HOSTNAME", "INFOPATH",
    "LANG", "LANGUAGE", "LIBRARY_PATH", "LINES", "LOGNAME", "MANPATH", "NODE_PATH", "NO_COLOR", "OLDPWD", "PAGER",
    "PATH", "PKG_CONFIG_PATH", "PWD", "SHELL", "SHLVL", "TEMP", "TERM", "TMP", "TMPDIR", "TMUX", "TZ", "USER",
    "VIRTUAL_ENV", "VISUAL", "_",
    # Certificates of servers; and the cache and interpreters of uv, which the setup of a copy shares.
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "UV_CACHE_DIR",
    "UV_OFFLINE", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_INSTALL_DIR", "UV_SYSTEM_CERTS",
})  # fmt: skip
# Some programs, git for one, reject an empty variable.
_KEPT_BEGINNINGS = (
    "ASDF_", "CONDA_", "DYLD_", "GIT_", "HOMEBREW_", "LC_", "LD_", "MNGR_", "NIX_", "NVM_", "PYENV_", "PYTHON",
    "RBENV_", "SELFTEST_", "TERM_PROGRAM", "TMUX_", "XDG_",
)  # fmt: skip
_KEPT_ENDINGS = ("_HOME",)
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"})
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|PRIVATE|AUTH(?!OR)|API_?KEY|ACCESS_?KEY|SIGNING_?KEY")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

REFRESHED = ("DISPLAY", "KRB5CCNAME", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSH_CONNECTION", "XAUTHORITY")
"""Variables that tmux copies from the client that makes a session."""


def inherited_from(socket: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a local agent would inherit: the tmux server's, or `environ` if none runs yet."""
    try:
        done = Tmux(socket, environ).ask("show-environment", "-g")
        inherited = parse_environment(done.stdout) if done.ok else dict(environ)
    except ToolError:
        inherited = dict(environ)
    return inherited | {name: environ[name] for name in REFRESHED if environ.get(name)}


def withheld(inherited: Mapping[str, str], named: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of inherited variables that the user did not name and programs do not need."""
    wanted = frozenset(named)
    return tuple(sorted(name for name, value in inherited.items() if value and not _may_have(name, value, wanted)))


def parse_environment(text: str) -> dict[str, str]:
    """Parse `tmux show-environment -g`. A value with line ends may look like several variables, which is harmless."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value for name, _, value in pairs if _NAME.fullmatch(name)}


def is_secret_name(name: str) -> bool:
    """Return True for a variable whose name says that its value is a secret."""
    return _SECRET.search(name.upper()) is not None


def _may_have(name: str, value: str, wanted: frozenset[str]) -> bool:
    if name in wanted or not _NAME.fullmatch(name):
        return True
    if name.upper() in _PROXIES:
        return "@" not in value
    if is_secret_name(name):
        return False
    return name in _KEPT or name.startswith(_KEPT_BEGINNINGS) or name.endswith(_KEPT_ENDINGS)
