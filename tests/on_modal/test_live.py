"""The real Modal answers as the control plane of the tests does, where it is only read. Skipped without a token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from selftest_core.modal.account import ModalAccount
from selftest_core.modal.modal_probe import ask
from selftest_core.tools.mngr import MngrProgram
from worlds import BIN

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "selftest-tui-has-no-such-place"

pytestmark = [
    pytest.mark.modal,
    pytest.mark.live_modal,
    pytest.mark.skipif(not os.environ.get("MODAL_TOKEN_ID"), reason="MODAL_TOKEN_ID is not set"),
]


def test_the_workspace_answers_and_what_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    environ = {**os.environ, "MODAL_CONFIG_PATH": str(tmp_path / "none.toml")}
    account = ModalAccount("modal", NOWHERE, NOWHERE)
    unknown = f"sb-{'0' * 30}"
    answer = ask(
        MngrProgram(BIN / "mngr", "environment"), environ, account, look=True, spend=True, poll=[unknown], seconds=30.0
    )
    assert answer.workspace
    assert answer.sandboxes == ()
    assert answer.exits == {}
    assert answer.spend is not None or answer.spend_problem
