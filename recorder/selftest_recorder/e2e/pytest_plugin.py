"""Pytest plugin with the fixture `e2e`, for every project that has this package installed.

pytest loads it in all of these projects. So it adds only that fixture (no option, no hook, no marker), and imports the
rest when a test uses it. A fixture `e2e` of the project itself wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selftest_recorder.e2e.end_to_end import EndToEnd


@pytest.fixture
def e2e(request: pytest.FixtureRequest) -> EndToEnd:
    """Cite and run blocks of `tutorial.sh` at the root of the project: `e2e.write_tutorial_block(text)`.

    Each cited block becomes a property `tutorial_block` of the test in pytest's XML report.
    """
    from selftest_recorder.e2e.end_to_end import EndToEnd

    properties = request.node.user_properties
    return EndToEnd(
        request.config.rootpath / "tutorial.sh",
        request.node.nodeid,
        lambda text: properties.append(("tutorial_block", text)),
    )
