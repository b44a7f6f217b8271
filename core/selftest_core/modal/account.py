"""Modal account: the environment, the app and the credentials that mngr uses for its sandboxes, read from its files.

The rules are mngr's own (`imbue.mngr_modal.backend`, 0.3): environment `{prefix}{user id}`, app `{prefix}{provider}`,
both cut at their longest names. The user's settings and MNGR__PROVIDERS__… are read, settings of a project are not, so
mngr is asked from the folder `/` wherever its answer is compared.
"""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.tools.mngr import installed_version, interpreter_of
from selftest_core.tools.mngr_files import host_dir_of, prefix_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.tools.mngr import MngrProgram

MODAL = "modal"
"""The name of mngr's provider, and of its backend."""
_LONGEST_NAME = 64
_LONGEST_APP = _LONGEST_NAME - len("-state")
_SETTINGS = ("user_id", "app_name", "token_id", "token_secret", "modal_profile")


@dataclass(frozen=True, slots=True)
class ModalAccount:
    """Place of mngr's sandboxes on Modal. `profile`: of Modal's own settings, empty for the active one."""

    provider: str
    environment: str
    app: str
    profile: str = ""
    token_id: str = field(default="", repr=False)
    token_secret: str = field(default="", repr=False)


def account_of(environ: Mapping[str, str], provider: str = MODAL) -> ModalAccount | None:
    """Read the account of a provider of mngr; None where mngr has not run yet, or where no credentials are there."""
    host_dir = host_dir_of(environ)
    try:
        profile = _table(host_dir / "config.toml")["profile"]
        folder = host_dir / "profiles" / str(profile)
        user = (folder / "user_id").read_text("utf-8").strip()
    except (OSError, ValueError, KeyError):
        return None
    own = _settings_of(provider, folder / "settings.toml", environ)
    if own.get("backend", provider) != MODAL or own.get("is_enabled") is False:
        return None
    text = {name: str(own.get(name) or "") for name in _SETTINGS}
    if not text["token_id"] and not text["modal_profile"] and not _has_credentials(environ):
        return None
    prefix = prefix_of(environ, host_dir)
    return ModalAccount(
        provider, _cut(prefix + (text["user_id"] or user), _LONGEST_NAME),
        _cut(text["app_name"] or prefix + provider, _LONGEST_APP), text["modal_profile"], text["token_id"],
        text["token_secret"],
    )  # fmt: skip


def has_plugin(program: MngrProgram) -> bool:
    """Return whether mngr's plugin for Modal is installed beside this mngr; beside us, where mngr is a wrapper."""
    if interpreter_of(program.path):
        return installed_version(program.path, "imbue_mngr_modal") is not None
    return find_spec("imbue") is not None and find_spec("imbue.mngr_modal") is not None


def _settings_of(provider: str, path: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return mngr's settings of one provider. Files that mngr cannot read either are its own to report."""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found |= _table(path)["providers"][provider]
    start = f"MNGR__PROVIDERS__{provider.upper()}__"
    found |= {name.removeprefix(start).lower(): value for name, value in environ.items() if name.startswith(start)}
    return found


def _has_credentials(environ: Mapping[str, str]) -> bool:
    if environ.get("MODAL_TOKEN_ID") and environ.get("MODAL_TOKEN_SECRET"):
        return True
    named = environ.get("MODAL_CONFIG_PATH")
    path = Path(named) if named else Path(environ.get("HOME") or "/nowhere") / ".modal.toml"
    return path.is_file()


def _table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[:longest].rstrip("-_")
