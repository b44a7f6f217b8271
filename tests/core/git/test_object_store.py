"""The private repository of a review: objects that are stored together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.git.object_store import ASKED, ObjectStore

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (0, 1, 15, 16, 17, 2047, 2048, 2049, 262_143, 262_144, 300_000, *range(3_000, 3_120))
"""Bytes of the objects: those at which the size takes another byte in a pack, and enough for a pack."""


def test_objects_that_wait_are_stored_together(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "repository")
    bodies = [bytes(number % 251 for number in range(size)) for size in SIZES]
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", repository.environment) as store:
        names = [store.write_later(b"blob", body) for body in bodies]
        with pytest.raises(KeyError):
            store.read(names[0])
        packs = tmp_path / "engine.git" / "objects" / "pack"
        packs.rmdir()
        packs.write_text("in the way", encoding="utf-8")
        with pytest.raises(OSError, match="pack"):
            store.write_waiting()
        packs.unlink()
        store.write_waiting()
        assert [store.read(name) for name in names] == [(b"blob", body) for body in bodies]
        assert sorted(path.suffix for path in packs.iterdir()) == [".idx", ".pack"]
        alone = store.write_later(b"blob", b"a single one")
        store.write_waiting()
        assert store.read(alone) == (b"blob", b"a single one")
        assert len(list(packs.iterdir())) == 2
        store.git.ask("fsck", "--strict")


def test_many_objects_are_asked_for_at_once(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "repository")
    bodies = [b"%d" % number * (number + 1) for number in range(2 * ASKED + 1)]
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", repository.environment) as store:
        names = [store.write_later(b"blob", body) for body in bodies]
        store.write_waiting()
        assert store.read_each(names) == [(b"blob", body) for body in bodies]
        assert store.read_each([]) == []
        gone = "f" * 40
        with pytest.raises(KeyError, match=gone):
            store.read_each([names[0], gone, *names[1:]])
        assert store.read(names[7]) == (b"blob", bodies[7]), "no rest of the answer is left"
        with pytest.raises(ValueError, match="not a commit"):
            store.commits(names[:2])
