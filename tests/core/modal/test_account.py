"""The environment, app and token of mngr's sandboxes are read from mngr's files as mngr reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from selftest_core.modal.account import ModalAccount, account_of

if TYPE_CHECKING:
    from pathlib import Path

USER = "0123456789abcdef0123456789abcdef"
TOKEN = {"MODAL_TOKEN_ID": "ak-1", "MODAL_TOKEN_SECRET": "as-1"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    profile = tmp_path / ".mngr" / "profiles" / "p1"
    profile.mkdir(parents=True)
    (tmp_path / ".mngr" / "config.toml").write_text('profile = "p1"\n')
    (profile / "user_id").write_text(f"{USER}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "variables", "wanted"),
    [
        ("", TOKEN, ModalAccount("modal", f"mngr-{USER}", "mngr-modal")),
        ('prefix = "my-"', TOKEN, ModalAccount("modal", f"my-{USER}", "my-modal")),
        ('[providers.modal]\nuser_id = "shared"\napp_name = "app"', TOKEN, ModalAccount("modal", "mngr-shared", "app")),
        ('[providers.modal]\nmodal_profile = "work"', {}, ModalAccount("modal", f"mngr-{USER}", "mngr-modal", "work")),
        (
            '[providers.modal]\ntoken_id = "ak-2"', {"MNGR__PROVIDERS__MODAL__TOKEN_SECRET": "as-2"},
            ModalAccount("modal", f"mngr-{USER}", "mngr-modal", "", "ak-2", "as-2"),
        ),
        ("", {**TOKEN, "MNGR_PREFIX": "p" * 80}, ModalAccount("modal", "p" * 64, "p" * 58)),
        ("", {}, None),
        ("[providers.modal]\nis_enabled = false", TOKEN, None),
        ('[providers.modal]\nbackend = "docker"', TOKEN, None),
        ("providers = 3", TOKEN, ModalAccount("modal", f"mngr-{USER}", "mngr-modal")),
    ],
)  # fmt: skip
def test_the_account_is_the_one_that_mngr_uses(
    home: Path, settings: str, variables: dict[str, str], wanted: ModalAccount | None
) -> None:
    (home / ".mngr" / "profiles" / "p1" / "settings.toml").write_text(settings)
    assert account_of({"HOME": str(home), **variables}) == wanted


def test_without_files_of_mngr_there_is_no_account_and_no_secret_is_printed(home: Path) -> None:
    assert account_of({"HOME": str(home / "nowhere"), **TOKEN}) is None
    (home / ".modal.toml").write_text("")
    assert account_of({"HOME": str(home)}) is not None
    assert "as-2" not in repr(ModalAccount("modal", "e", "a", "", "ak-2", "as-2"))
