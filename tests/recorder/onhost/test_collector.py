"""The collector on real tmux: what it records is what tmux showed, and little is lost when it is killed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import selftest_recorder.onhost
from recorder.onhost.collecting import Collecting, collecting, status_of
from selftest_recorder.cast.events import EXIT, RESIZE
from selftest_recorder.cast.reader import read_cast
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worlds import World

DRAWING = r"""#!/bin/sh
printf '\033[2J\033[1;1H\033[31mred\033[0m and e\314\201 \344\275\240\345\245\275 \360\237\230\200|\n'
printf '\033[5;10Hhere\033[7m reversed \033[0m'
printf '\033[?1049h\033[2J\033[3;4Hon the other screen\033[3;8r\033[6;1H'
read -r word
printf '\033[?1049l'
read -r word
"""


@pytest.fixture
def home(shared_world: World, tmp_path: Path) -> Iterator[Collecting]:
    """A collector's folder whose path has characters that shells and tmux take for theirs."""
    with collecting(shared_world, tmp_path / "it's a #{folder} 100%d; $HOME") as made:
        yield made


def test_a_recording_begins_with_the_screen_and_shows_what_tmux_shows(home: Collecting) -> None:
    script = home.world.script("draw", DRAWING)
    home.session("drawn", str(script), columns=60, lines=12)
    eventually(lambda: "on the other screen" in home.world.tmux("capture-pane", "-p", "-t", "=drawn:"))
    home.order("record", "drawn", title="what was drawn")
    home.start()
    eventually(lambda: home.shows_what_tmux_shows("drawn"), "the other screen")
    assert "on the other screen" in "\n".join(home.screen("drawn"))
    # Back on the first screen stands what stood there before the recording began.
    home.type("drawn", "")
    eventually(lambda: "red and" in home.world.tmux("capture-pane", "-p", "-t", "=drawn:"))
    eventually(lambda: home.shows_what_tmux_shows("drawn"), "the first screen")
    assert home.screen("drawn")[0] == "red and e\u0301 你好 😀|"
    header = read_cast(home.file("drawn")).header
    assert (header.version, header.cols, header.rows, header.title) == (3, 60, 12, "what was drawn")
    assert home.file("drawn").stat().st_mode & 0o777 == 0o600


def test_what_follows_is_recorded_to_the_end_and_the_collector_goes(home: Collecting) -> None:
    home.session("work")
    home.order("record", "later", title="is not there yet")
    home.order("record", "work")
    process = home.start()
    home.wait_until_recorded("work")
    began = time.time()
    home.type("work", "printf 'one\\r\\ntwo\\033]777;selftest;marker;half way\\a'")
    eventually(lambda: home.labels("work") == ["half way"], "what was printed")
    assert "two" in home.text("work")
    home.session("later")
    home.wait_until_recorded("later")
    home.order("mark", "work", label="test passed", at=began)
    home.order("finish", "work", link=str(home.home / "kept.cast"))
    home.order("finish", "later", link=str(home.home / "no such folder" / "kept.cast"))
    home.world.tmux("kill-session", "-t", "=work")
    home.world.tmux("kill-session", "-t", "=later")
    status_of(process)
    assert home.labels("work") == ["half way", "test passed"]
    assert (home.home / "kept.cast").samefile(home.file("work"))
    header = read_cast(home.file("work")).header
    last = home.events("work")[-1]
    assert header.timestamp is not None
    assert began - 1 <= header.timestamp + last.time <= time.time() + 1
    assert list((home.home / "fifos").iterdir()) == [home.home / "fifos" / "lock"]
    assert home.log() == ""


def test_another_size_is_followed(home: Collecting) -> None:
    home.session("sized", columns=70, lines=15)
    home.order("record", "sized")
    home.start()
    home.wait_until_recorded("sized")
    home.type("sized", "echo before the change")
    home.world.tmux("resize-window", "-t", "=sized:", "-x", "50", "-y", "9")
    eventually(lambda: [event.data for event in home.events("sized") if event.code == RESIZE] == ["50x9"])
    home.type("sized", "echo behind it")
    eventually(lambda: "\nbehind it" in "\n".join(home.screen("sized")), "what came behind the change")
    eventually(lambda: home.shows_what_tmux_shows("sized"))


def test_a_killed_collector_loses_a_second_at_most_and_the_next_goes_on(home: Collecting) -> None:
    ticking = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done"
    home.session("ticks", "/bin/sh", "-c", ticking)
    home.order("record", "ticks")
    home.order("mark", "ticks", label="launched", at=time.time())
    process = home.start()
    home.wait_until_recorded("ticks")
    eventually(lambda: home.text("ticks").count("tick") > 40, "some seconds of output")

    def kept() -> int:
        """The last tick that is in the recording."""
        return max(int(found[1]) for found in re.finditer(r"tick (\d+)\r", home.text("ticks")))

    def lost() -> int:
        """How many of the ticks on the screen are not in the recording; twenty of them are a second."""
        shown = home.world.tmux("capture-pane", "-p", "-t", "=ticks:")
        last = kept()
        return sum(int(found[1]) > last for found in re.finditer(r"tick (\d+)\n", shown))

    # A machine on which the collector does not get to run is no matter of its own: hence first a moment when it does.
    eventually(lambda: lost() <= 20, "a recording that is not a second behind")
    before_the_kill = kept()
    process.kill()
    process.wait()
    assert kept() >= before_the_kill
    with home.file("ticks").open("ab") as file:
        file.write(b'[0.1, "o", "torn by the ki')
    before = len(home.events("ticks"))
    home.order("mark", "ticks", label="passed", at=time.time())
    home.start()
    eventually(lambda: len(home.events("ticks")) > before + 10, "the next collector")
    resumed = [label for label in home.labels("ticks") if label.startswith("recording resumed, ")]
    assert len(resumed) == 1
    assert [label for label in home.labels("ticks") if label not in resumed] == ["launched", "passed"]
    home.world.tmux("send-keys", "-t", "=ticks:", "C-s")  # the terminal holds its output, so that it can be compared
    eventually(lambda: home.shows_what_tmux_shows("ticks"))


def test_a_second_collector_for_the_same_folder_goes_at_once(home: Collecting) -> None:
    home.session("once")
    home.order("record", "once")
    home.start()
    home.wait_until_recorded("once")
    assert status_of(home.start()) == 0
    home.type("once", "echo still here")
    eventually(lambda: "\nstill here" in home.text("once"))


def test_secrets_are_masked_and_the_size_has_an_end(home: Collecting) -> None:
    home.session("much")
    home.order("record", "much")
    home.start(
        "--mask", "TOKEN", "--limit", "60000", TOKEN="hunter2-hunter2", SELFTEST_RECORDER_PATTERNS='["ord-\\\\d+"]'
    )
    home.wait_until_recorded("much")
    home.type("much", "printf 'hunter2-'; printf 'hunter2 ord-4711\\n'; echo done")
    eventually(lambda: "\ndone" in home.text("much"))
    # Its first bytes may have been shown before it was clear what they are.
    assert re.search(r"(hun|\*{3})\*{12} \*{8}\r\n", home.text("much"))
    assert "4711" not in home.text("much")
    home.type("much", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i of very many lines; done")
    cut = "recording cut: 0.0572205 MiB are kept at most"
    eventually(lambda: cut in home.labels("much"), "the end of the size")
    # The pane is left alone from then on, and markers go on.
    eventually(lambda: home.world.tmux("display-message", "-p", "-t", "=much:", "#{pane_pipe}").strip() == "0")
    size = home.file("much").stat().st_size
    home.order("mark", "much", label="passed", at=time.time())
    eventually(lambda: home.labels("much") == [cut, "passed"])
    assert home.file("much").stat().st_size < size + 200 < 300_000


def test_a_pane_whose_output_somebody_else_has_is_left_to_them(home: Collecting) -> None:
    theirs = home.world.root / "theirs"
    home.session("taken")
    home.world.tmux("pipe-pane", "-t", "=taken:", f"cat >>{theirs}")
    home.order("record", "taken")
    home.start()
    eventually(lambda: "another program has the output of its pane" in home.log())
    home.type("taken", "echo for them")
    eventually(lambda: theirs.exists() and b"for them" in theirs.read_bytes())
    assert not home.file("taken").exists()


def test_an_agent_that_goes_on_has_another_recording_from_then_on(home: Collecting) -> None:
    """Its orders of before are read again, while its new session is there already."""
    home.session("going")
    home.world.tmux("set-option", "-p", "-t", "=going:", "@mngr_agent_id", "agent-1")
    home.order("record", "first", session="", agent_id="agent-1")
    home.order("finish", "first")
    home.order("record", "second", session="", agent_id="agent-1")
    home.start()
    home.wait_until_recorded("second")
    home.type("going", "echo behind the answer")
    eventually(lambda: "behind the answer" in home.text("second"), "what it did then")
    assert not home.file("first").exists()
    assert home.log() == ""


def test_the_end_of_the_tmux_server_leaves_whole_recordings(world: World, tmp_path: Path) -> None:
    with collecting(world, tmp_path / "c") as home:
        home.session("one", "/bin/sh", "-c", "while :; do echo busy; done")
        home.session("two", "/bin/sh", "-c", "echo bye; exit 3")
        home.world.tmux("set-option", "-w", "-t", "=one:", "remain-on-exit", "on", check=False)
        home.order("record", "one")
        process = home.start()
        eventually(lambda: home.text("one").count("busy") > 3, "what it prints")
        world.tmux("kill-server")
        assert status_of(process) == 0
        assert home.file("one").read_bytes().endswith(b"\n")


def test_the_status_of_a_program_whose_pane_remains_is_recorded(home: Collecting) -> None:
    home.session("ends")
    home.world.tmux("set-option", "-w", "-t", "=ends:", "remain-on-exit", "on")
    home.order("record", "ends")
    process = home.start()
    home.wait_until_recorded("ends")
    home.type("ends", "exit 7")
    status_of(process)
    assert home.events("ends")[-1].code == EXIT
    assert home.events("ends")[-1].data == "7"


def test_a_status_that_comes_after_the_end_of_the_terminal_is_waited_for(home: Collecting) -> None:
    leaving = "trap '' HUP; read -r word; echo bye; exec <&- >&- 2>&-; sleep 1; exit 7"
    home.session("leaves", "/bin/sh", "-c", leaving)
    home.world.tmux("set-option", "-w", "-t", "=leaves:", "remain-on-exit", "on")
    home.order("record", "leaves")
    process = home.start()
    home.wait_until_recorded("leaves")
    home.type("leaves", "")
    status_of(process)
    assert "bye" in home.text("leaves")
    assert (home.events("leaves")[-1].code, home.events("leaves")[-1].data) == (EXIT, "7")


def test_orders_that_cannot_be_read_cost_nobody_anything(home: Collecting) -> None:
    (home.home / "orders").write_bytes(b'nonsense\n[1]\n{"do": "mark", "name": "nobody"}\n{"do": "record"}\n\xff\xfe\n')
    home.session("fine")
    home.order("record", "fine")
    with (home.home / "orders").open("ab") as file:
        file.write(b'{"do": "reco')
    process = home.start()
    home.wait_until_recorded("fine")
    process.terminate()
    assert status_of(process) == 0
    assert home.world.tmux("display-message", "-p", "-t", "=fine:", "#{pane_pipe}").strip() == "0"


def test_what_runs_on_other_hosts_is_old_python_without_anything_else(tmp_path: Path) -> None:
    package = Path(selftest_recorder.onhost.__file__).parent
    for path in package.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names), path
    (tmp_path / "onhost").symlink_to(package)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, '.'); import onhost.__main__"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
