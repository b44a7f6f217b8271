"""Which variables of this machine an agent must not have: all that nobody named and that may say something of a person.

A remote agent inherits nothing from here. A local one is born inside the person's tmux server, whose environment
(tokens, the ssh agent, keyrings) every pane inherits, and mngr can give a session a variable but take none away: so
what is not to be had is given empty. What programs need to run at all stays: paths, places of toolchains, the
language and the terminal. This keeps secrets out of an agent's environment, not out of its reach: it is the person's
own user, and their files are not hidden from it.
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
    # Certificates to check servers by, and the cache and the interpreters of uv, which the setup of a copy shares.
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "UV_CACHE_DIR",
    "UV_OFFLINE", "UV_PYTHON_DOWNLOADS", "UV_PYTHON_INSTALL_DIR", "UV_SYSTEM_CERTS",
})  # fmt: skip
# Some programs, git first of all, take an empty variable for a wrong one.
_KEPT_BEGINNINGS = (
    "ASDF_", "CONDA_", "DYLD_", "GIT_", "HOMEBREW_", "LC_", "LD_", "MNGR_", "NIX_", "NVM_", "PYENV_", "PYTHON",
    "RBENV_", "SELFTEST_", "TERM_PROGRAM", "TMUX_", "XDG_",
)  # fmt: skip
_KEPT_ENDINGS = ("_HOME",)
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"})
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|PRIVATE|AUTH(?!OR)|API_?KEY|ACCESS_?KEY|SIGNING_?KEY")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

REFRESHED = ("DISPLAY", "KRB5CCNAME", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSH_CONNECTION", "XAUTHORITY")
"""What tmux copies from whoever makes a session, beside what its server has."""


def inherited_from(socket: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a local agent would inherit: of the tmux server, or of `environ` where that is started."""
    try:
        done = Tmux(socket, environ).ask("show-environment", "-g")
        inherited = parse_environment(done.stdout) if done.ok else dict(environ)
    except ToolError:
        inherited = dict(environ)
    return inherited | {name: environ[name] for name in REFRESHED if environ.get(name)}


def withheld(inherited: Mapping[str, str], named: Iterable[str]) -> tuple[str, ...]:
    """The names, sorted, of what is inherited, not named by the person and not needed to run programs."""
    wanted = frozenset(named)
    return tuple(sorted(name for name, value in inherited.items() if value and not _may_have(name, value, wanted)))


def parse_environment(text: str) -> dict[str, str]:
    """The variables of `tmux show-environment -g`; a value with line ends may look like more, which does no harm."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value for name, _, value in pairs if _NAME.fullmatch(name)}


def _may_have(name: str, value: str, wanted: frozenset[str]) -> bool:
    if name in wanted or not _NAME.fullmatch(name):
        return True
    if name.upper() in _PROXIES:
        return "@" not in value
    if _SECRET.search(name.upper()):
        return False
    return name in _KEPT or name.startswith(_KEPT_BEGINNINGS) or name.endswith(_KEPT_ENDINGS)
