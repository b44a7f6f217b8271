"""Tests with the real client of Modal: `make modal-tests` runs them, in an environment that has it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from on_modal.control_plane import ControlPlane

if find_spec("modal_proto") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of Modal."""
    from on_modal.control_plane import ControlPlane

    with ControlPlane() as made:
        yield made
