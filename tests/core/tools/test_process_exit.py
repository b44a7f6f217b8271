"""The end of other processes is told, whatever waits for it."""

from __future__ import annotations

import asyncio
import resource
import subprocess
from typing import TYPE_CHECKING

import pytest

from selftest_core.tools.process_exit import ExitWatch, is_alive
from worlds import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three processes that would go on for long."""
    started = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    yield started
    for each in started:
        each.kill()
        each.wait()


async def test_an_end_is_told(sleepers: list[subprocess.Popen[bytes]]) -> None:
    told = asyncio.Event()
    watch = ExitWatch(told.set)
    watch.watch(each.pid for each in sleepers)
    assert watch.watched == {each.pid for each in sleepers}
    sleepers[1].kill()
    await asyncio.wait_for(told.wait(), PATIENCE)
    assert watch.watched == {sleepers[0].pid, sleepers[2].pid}
    watch.close()
    assert watch.watched == frozenset()


async def test_it_is_told_again_when_the_parent_has_had_time_to_look(sleepers: list[subprocess.Popen[bytes]]) -> None:
    calls: asyncio.Queue[None] = asyncio.Queue()
    watch = ExitWatch(lambda: calls.put_nowait(None))
    watch.watch([sleepers[0].pid])
    sleepers[0].kill()
    for _ in range(4):
        await asyncio.wait_for(calls.get(), PATIENCE)
    sleepers[0].wait()
    # Once it is gone for good, it is told a last time at most.
    while watch.is_settling:
        await asyncio.sleep(0.01)
    watch.close()


async def test_one_that_has_ended_before_is_told_once(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleepers[0].kill()
    sleepers[0].wait()
    told = asyncio.Event()
    watch = ExitWatch(told.set)
    watch.watch([sleepers[0].pid, sleepers[1].pid])
    await asyncio.wait_for(told.wait(), PATIENCE)
    assert watch.watched == {sleepers[1].pid}
    watch.watch([sleepers[0].pid, sleepers[1].pid])
    assert watch.watched == {sleepers[1].pid}
    watch.close()


async def test_what_is_no_longer_named_is_not_told(sleepers: list[subprocess.Popen[bytes]]) -> None:
    told = asyncio.Event()
    watch = ExitWatch(told.set)
    watch.watch([sleepers[0].pid, sleepers[1].pid])
    watch.watch([sleepers[1].pid])
    assert watch.watched == {sleepers[1].pid}
    sleepers[0].kill()
    sleepers[0].wait()
    assert not told.is_set()
    sleepers[1].kill()
    await asyncio.wait_for(told.wait(), PATIENCE)
    watch.close()


async def test_more_processes_than_files_are_polled(sleepers: list[subprocess.Popen[bytes]]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(257, before[0]), before[1]))
    try:
        told = asyncio.Event()
        watch = ExitWatch(told.set)
        watch.watch(each.pid for each in sleepers)
        assert watch.watched == {each.pid for each in sleepers}
        for each in sleepers:
            told.clear()
            each.kill()
            each.wait()
            await asyncio.wait_for(told.wait(), PATIENCE)
        watch.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_alive_means_that_the_process_exists(sleepers: list[subprocess.Popen[bytes]]) -> None:
    assert is_alive(sleepers[0].pid)
    assert is_alive(1)
    sleepers[0].kill()
    sleepers[0].wait()
    assert not is_alive(sleepers[0].pid)
