"""A prompt holds all that an agent needs, says every text word for word, and refuses a template that would not."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex

import jsonschema
import pytest

from selftest_core.errors import ConfigError
from selftest_core.run.outcome.outcome import reported_end
from selftest_core.run.outcome.outcome_file import outcome_schema, parse_outcome
from selftest_core.run.plan.plan import PlannedTest, RunPlan
from selftest_core.run.plan.prompt import (
    ENVIRONMENT,
    KINDS,
    NAMES,
    fenced,
    render_prompt,
    run_command,
    without_deprecated,
)

BLOCK = "# Ünïcode and {{ 7 * 7 }} and {% raw %}\n./shop cart add 'tea' --count 2 |\n    cat\n"
TEST = PlannedTest("tests/test_it.py::test_a[x y-{{ base }}]", "a-b", f"agent-{7:032x}", (BLOCK, "ls"))
PLAN = RunPlan(
    run="20261121-0931-7f3a", repository="/home/ann/shop", base="1" * 40, provider="local", agent_type="claude",
    agent_command=None, transfer="mirror", env_names=(), max_running=20, launch_rate=0.5, timeout=1800.0,
    budget_usd=None, usd_per_agent=None, create_args=(), on_cluster="ask",
    pytest_command=("python", "-m", "pytest"), pytest_args=("-k", "not slow"), tests=(TEST,), left_out=(),
    created_at=1795253460.5,
)  # fmt: skip


AT = 1795253460.5  # 2026-11-21 09:31 UTC


def prompt_by(template: str, test: PlannedTest = TEST) -> str:
    return render_prompt(dataclasses.replace(PLAN, prompt_template=template), test, AT)


def test_the_shipped_prompt_holds_all_that_an_agent_needs() -> None:
    prompt = render_prompt(PLAN, TEST, AT)
    assert TEST.node_id in prompt
    assert run_command(PLAN, TEST) in prompt
    assert BLOCK in prompt
    assert "```sh\nls\n```" in prompt
    assert PLAN.base in prompt
    assert "30 minutes" in prompt
    assert all(f"`{name}`" in prompt for name in ENVIRONMENT)
    assert all(f"`[{kind}]`" in prompt for kind in KINDS)
    assert "bundle" not in prompt  # the conductor makes it
    assert "AskUserQuestion" in prompt
    assert "plan mode" in prompt
    assert 'mv "$SELFTEST_OUT/outcome.json.draft" "$SELFTEST_OUT/outcome.json"' in prompt
    assert not re.search(r"\n{3,}", prompt.replace(BLOCK, ""))


def test_the_schema_in_the_prompt_is_the_one_that_reads_and_its_example_is_read() -> None:
    prompt = render_prompt(PLAN, TEST, AT)
    schema, example = (json.loads(text) for text in re.findall(r"```json\n(.*?)\n```", prompt, re.DOTALL))
    assert schema == without_deprecated(outcome_schema())
    assert "deprecated" in json.dumps(outcome_schema())
    assert "deprecated" not in prompt
    jsonschema.validate(example, schema)
    assert reported_end(parse_outcome(json.dumps(example).encode()), has_commits=True) == "succeeded"


def test_the_end_is_a_time_of_day_with_its_zone_and_counts_from_the_attempts_own_begin() -> None:
    assert "Your time is over at 10:01 UTC, 30 minutes after you were started" in render_prompt(PLAN, TEST, AT)
    assert "over at 00:00 UTC" in render_prompt(PLAN, TEST, AT + 50340)


def test_a_test_without_a_block_is_told_so() -> None:
    prompt = prompt_by("", dataclasses.replace(TEST, blocks=()))
    assert "cites no block" in prompt
    assert "faithful" not in prompt


def test_the_command_survives_a_shell() -> None:
    assert shlex.split(run_command(PLAN, TEST)) == [*PLAN.pytest_command, *PLAN.pytest_args, TEST.node_id]


def test_a_template_extends_the_shipped_one() -> None:
    prompt = prompt_by('{% extends "tester.j2" %}{% block limits %}{{ super() }}\n- Use no network.{% endblock %}')
    assert "- Invent no flags" in prompt
    assert "- Use no network." in prompt
    assert BLOCK in prompt


def test_a_template_replaces_the_shipped_one_and_may_use_every_name() -> None:
    template = "".join(f"{name}={{{{ {name} }}}}\n" for name in NAMES)
    prompt = prompt_by(template)
    assert prompt.startswith("run=20261121-0931-7f3a\ntest=tests/test_it.py::test_a[x y-{{ base }}]\n")
    assert len(prompt) > 1000


@pytest.mark.parametrize(
    ("template", "detail"),
    [
        ("{% block %}", "line 1"),
        ("\n\n{{ test", "line 3"),
        ("{{ tset }}", "'tset' is undefined"),
        ("{{ test.nothing }}", "nothing"),
        ("{% extends 'other.j2' %}", "other.j2"),
        ("{% include '/etc/passwd' %}", "/etc/passwd"),
        ("{{ test.__class__.__mro__ }}", "__class__"),
        ("{{ cited_blocks.append(1) }}", "append"),
        ("{{ range(10 ** 9) | list }}", "range"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ minutes + 1 }}", "TypeError"),
        (" \n", "empty"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template: str, detail: str) -> None:
    with pytest.raises(ConfigError) as raised:
        prompt_by(template)
    assert detail in raised.value.detail
    assert "tester.j2" in raised.value.hint


@pytest.mark.parametrize("text", ["ls", "```\nls\n```", "`````", "ls\n\n"])
def test_no_text_ends_its_own_fence(text: str) -> None:
    lines = fenced(text, "sh").split("\n")
    assert lines[-1] == lines[0].removesuffix("sh")
    assert set(lines[-1]) == {"`"}
    assert "\n".join(lines[1:-1]) == text.removesuffix("\n")
    assert lines[-1] not in text
