"""The parts of a change are the change again, and any choice of hunks is what `git apply` makes of them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.review.repositories import Repository
from selftest_core.git.command import Git
from selftest_core.git.diffs import compare_trees, read_diff
from selftest_core.review.changes.parts import PartSpec, Split, UnfitSplitError, parse_split, split_json
from selftest_core.review.changes.plan import make_plan, resolve_range
from selftest_core.review.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_core.review.changes.collect_changes import Change


class Bench:
    """A repository, an engine on it, and the change of the branch `agent`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.repository = Repository.make(folder / "r")
        self.folder = folder
        self.stack = stack

    def change(self, before: dict[str, str | bytes | None], after: dict[str, str | bytes | None]) -> Change:
        """Commit `before` on main, and `after` on top of it on `agent`."""
        self.repository.commit("Start", {"base": "base\n", **before})
        self.repository.git("checkout", "-q", "-b", "agent")
        self.repository.commit("Change", after)
        return self.planned()

    def planned(self) -> Change:
        git_dir = self.repository.folder / ".git"
        self.engine = self.stack.enter_context(Engine.open(self.folder / "engine.git", git_dir, os.environ))
        self.ranked = make_plan(self.engine.store, resolve_range(Git(git_dir, os.environ), "main", "agent")).ranked
        return self.ranked[0].change

    def split(self, oid: str, *parts: PartSpec) -> list[Change]:
        return [one.change for one in self.engine.shapes.shape(self.ranked, {oid: parts}, lambda changes: {})]

    def files(self, tree: str) -> dict[str, str]:
        listed = self.engine.store.git.ask("ls-tree", "-r", tree).splitlines()
        return {line.partition("\t")[2]: line.split()[0] + " " + line.split()[2] for line in listed}

    def text(self, tree: str, path: str) -> bytes:
        oid = self.files(tree)[path].split()[1]
        return self.engine.store.read(oid)[1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


LONG = [f"line {number}\n" for number in range(40)]


def edited(*places: int) -> str:
    return "".join(f"new {number}\n" if number in places else line for number, line in enumerate(LONG))


def hunks_of(bench: Bench, change: Change, path: str) -> list[str]:
    return [hunk.id for file in read_diff(bench.engine.store, change.oid) if file.path == path for hunk in file.hunks]


def test_parts_are_stacked_and_together_are_the_change(bench: Bench) -> None:
    change = bench.change({"a.py": "".join(LONG), "b.py": "1\n"}, {"a.py": edited(3, 20, 36), "b.py": "2\n"})
    first, second, third = hunks_of(bench, change, "a.py")
    parts = bench.split(
        change.oid, PartSpec(hunks=(("a.py", (second,)),)), PartSpec(files=("b.py",), hunks=(("a.py", (first,)),))
    )
    assert [part.part.number for part in parts if part.part] == [1, 2, 3]
    assert [bench.text(part.item.tree, "a.py").decode() for part in parts] == [
        edited(20),
        edited(3, 20),
        edited(3, 20, 36),
    ]
    assert [one.item.base_tree for one in parts] == [change.item.base_tree, parts[0].item.tree, parts[1].item.tree]
    assert parts[-1].item.tree == change.item.tree
    assert [[path.path for path in part.paths] for part in parts] == [["a.py"], ["a.py", "b.py"], ["a.py"]]
    assert [part.lines for part in parts] == [2, 4, 2]
    assert {part.subject for part in parts} == {"Change"}
    assert third in hunks_of(bench, parts[2], "a.py"), "a hunk keeps its id in its part"
    again = bench.split(change.oid, PartSpec(files=("b.py",)))
    assert [part.oid for part in again] == [part.oid for part in bench.split(change.oid, PartSpec(files=("b.py",)))]
    bench.engine.store.git.ask("fsck", "--strict", "--no-dangling", parts[-1].oid)


def test_lines_end_as_they_did(bench: Bench) -> None:
    old, new = [line.replace("\n", "\r\n") for line in LONG], [line.replace("\n", "\r\n") for line in LONG]
    new[2], new[-1] = "two\n", "no newline"
    change = bench.change({"a": "".join(old)}, {"a": "".join(new)})
    first, last = hunks_of(bench, change, "a")
    assert (
        bench.text(bench.split(change.oid, PartSpec(hunks=(("a", (last,)),)))[0].item.tree, "a")
        == "".join([*old[:-1], "no newline"]).encode()
    )
    assert (
        bench.text(bench.split(change.oid, PartSpec(hunks=(("a", (first,)),)))[0].item.tree, "a")
        == "".join([*old[:2], "two\n", *old[3:]]).encode()
    )


def test_equal_hunks_of_a_file_are_told_apart(bench: Bench) -> None:
    old = "".join([*LONG[:10], "same\n", *LONG[10:20], "same\n", *LONG[20:]])
    change = bench.change({"a": old}, {"a": old.replace("same", "other")})
    first, second = hunks_of(bench, change, "a")
    assert second == f"{first}-2"
    (part, _) = bench.split(change.oid, PartSpec(hunks=(("a", (second,)),)))
    assert bench.text(part.item.tree, "a").decode() == old[::-1].replace("emas", "rehto", 1)[::-1]


def test_what_has_no_hunks_is_split_by_file(bench: Bench) -> None:
    text = "".join(LONG)
    bench.repository.commit(
        "Start", {"mode": text, "binary": b"\0" * 9, "moved": text, "gone": "1\n", "d/x": "1\n", "top": "t\n"}
    )
    (bench.repository.folder / "link").symlink_to("mode")
    bench.repository.git("add", "-A")
    bench.repository.git("commit", "-q", "--amend", "--no-edit")
    bench.repository.git("checkout", "-q", "-b", "agent")
    folder = bench.repository.folder
    (folder / "mode").chmod(0o755)
    (folder / "moved").rename(folder / "there")
    (folder / "link").unlink()
    (folder / "link").symlink_to("gone")
    (folder / "d/x").unlink()
    (folder / "d").rmdir()
    (folder / "top").unlink()
    bench.repository.commit(
        "Change",
        {
            "mode": edited(3, 30),
            "binary": b"\0" * 10,
            "gone": None,
            "new": "n\n",
            "empty": "",
            "d": "file\n",
            "top/x": "x\n",
        },
    )
    bench.repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    bench.repository.git("commit", "-q", "--amend", "--no-edit")
    change = bench.planned()
    before, after = bench.files(change.item.base_tree), bench.files(change.item.tree)
    for path in ("mode", "binary", "moved", "there", "gone", "new", "empty", "link", "module"):
        part, rest = bench.split(change.oid, PartSpec(files=(path,)))
        wanted = {name: oid for name, oid in before.items() if name != path} | (
            {path: after[path]} if path in after else {}
        )
        assert bench.files(part.item.tree) == wanted, path
        assert rest.item.tree == change.item.tree
    assert bench.files(bench.split(change.oid, PartSpec(files=("d", "d/x")))[0].item.tree)["d"] == after["d"]
    turned = bench.split(change.oid, PartSpec(files=("top", "top/x")))[0].item.tree
    assert "top" not in bench.files(turned)
    assert bench.files(turned)["top/x"] == after["top/x"], "a folder takes the place of a file"
    for path in ("mode", "binary", "link", "module"):
        with pytest.raises(UnfitSplitError, match="has no hunks"):
            bench.split(change.oid, PartSpec(hunks=((path, ("123456789012",)),)))
    (new,) = hunks_of(bench, change, "new")
    assert bench.files(bench.split(change.oid, PartSpec(hunks=(("new", (new,)),)))[0].item.tree)["new"] == after["new"]


def test_a_split_that_does_not_fit_is_refused_with_the_reason(bench: Bench) -> None:
    change = bench.change({"a": "".join(LONG), "b": "1\n"}, {"a": edited(3, 30), "b": "2\n"})
    one, two = hunks_of(bench, change, "a")
    for parts, words in (
        ([PartSpec(hunks=(("a", ("0" * 12,)),))], f"has no hunk '{'0' * 12}'"),
        ([PartSpec(files=("nowhere",))], "the change leaves it as it is"),
        ([PartSpec(hunks=(("nowhere", (one,)),))], "the change leaves it as it is"),
        ([PartSpec(files=("a",)), PartSpec(files=("a",))], "an earlier part has it"),
        ([PartSpec(files=("a",)), PartSpec(hunks=(("a", (one,)),))], "is in two parts"),
        ([PartSpec(hunks=(("a", (one, one)),))], "is in two parts"),
        ([PartSpec(files=("a", "b"))], "one part has all of it"),
        ([PartSpec(hunks=(("a", (one, two)),)), PartSpec(files=("a",))], "an earlier part has it"),
    ):
        with pytest.raises(UnfitSplitError, match=words) as raised:
            bench.split(change.oid, *parts)
        assert raised.value.oid == change.oid
    with pytest.raises(UnfitSplitError) as raised:
        bench.split(change.oid, PartSpec(hunks=(("a", ("0" * 12,)),)))
    assert f"{one}: -1 +1" in raised.value.detail, "it lists the hunks that there are"
    wrong: list[object] = [
        [],
        {},
        [{}],
        [{"files": []}],
        [{"hunks": {"a": []}}],
        [{"lines": [1]}],
        [{"files": "a"}],
        ["a"],
    ]
    for value in wrong:
        with pytest.raises(ValueError, match=r"part|split|hunks"):
            parse_split(value)


def test_a_part_may_be_split_again(bench: Bench) -> None:
    change = bench.change({"a": "1\n", "b": "1\n", "c": "1\n"}, {"a": "2\n", "b": "2\n", "c": "2\n"})
    splits: dict[str, Split] = {change.oid: (PartSpec(files=("a",)),)}
    _, rest = bench.split(change.oid, *splits[change.oid])
    splits[rest.oid] = (PartSpec(files=("b",)),)
    made = [one.change for one in bench.engine.shapes.shape(bench.ranked, splits, lambda changes: {})]
    assert [[path.path for path in one.paths] for one in made] == [["a"], ["b"], ["c"]]
    assert made[1].part is not None
    assert made[1].part.of == rest.oid
    assert made[1].original_oids == (change.oid,)
    assert made[2].item.tree == change.item.tree


BLOCKS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x y\n", "end"]), max_size=30)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=BLOCKS, after=BLOCKS, other=BLOCKS, numbers=st.lists(st.integers(0, 9), max_size=12))
def test_any_choice_of_hunks_is_what_git_apply_makes_of_them(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str], other: list[str], numbers: list[int]
) -> None:
    """Random texts around fixed lines, so that there are some hunks; git applies the patch of the chosen ones alone."""
    old, new = (
        "".join("".join(part) + "".join(LONG[:9]) for part in parts)
        for parts in ((before, other, after, before), (after, other, before, other))
    )
    if old == new:
        return
    with ExitStack() as stack:
        bench = Bench(tmp_path_factory.mktemp("parts"), stack)
        change = bench.change({"a": old, "b": "1\n"}, {"a": new, "b": "2\n"})
        (file,) = [one for one in read_diff(bench.engine.store, change.oid) if one.path == "a"]
        chosen = [hunk for number, hunk in enumerate(file.hunks) if number in numbers]
        if not chosen:
            return
        part, rest = bench.split(change.oid, PartSpec(hunks=(("a", tuple(hunk.id for hunk in chosen)),)))
        assert rest.item.tree == change.item.tree
        bench.repository.git("checkout", "-q", "--detach", "main")
        whole = bench.repository.git("diff", "--no-color", "main", "agent", "--", "a")
        heads = {f"@@ -{hunk.old_start}," for hunk in chosen} | {f"@@ -{hunk.old_start} " for hunk in chosen}
        patch = bench.folder / "patch"
        patch.write_text("\n".join(_with_hunks(whole.split("\n"), heads)) + "\n")
        bench.repository.git("apply", "--recount", "--unidiff-zero", str(patch))
        assert bench.text(part.item.tree, "a") == (bench.repository.folder / "a").read_bytes()
        assert [one.name for one in compare_trees(bench.engine.store, change.item.base_tree, part.item.tree)] == ["a"]
        assert parse_split(split_json((PartSpec(("é", "\udcff"), (("b", ("1",)),)),)))[0].files == ("é", "\udcff")


def _with_hunks(patch: list[str], heads: set[str]) -> Iterator[str]:
    is_wanted = True
    for line in patch:
        if line.startswith("@@ "):
            is_wanted = any(line.startswith(head) for head in heads)
        if is_wanted:
            yield line
