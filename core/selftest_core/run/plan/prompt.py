"""The prompts of agents: Markdown, rendered from a template that the user may replace or extend.

Each role has a template, `prompts/ROLE.j2`; what they share is in `prompts/agent.j2`, which they extend. The user's own
is for testers, and any jinja2 text: it stands alone, or it begins with `{% extends "tester.j2" %}` and overrides blocks
of it. It may use the names in `NAMES`. It is rendered in a sandbox
when the run is planned, and an unknown name is an error, so a broken template is refused before the first agent.

Names of tests and texts of blocks are passed as values: they are never template code, and no fence in them ends the
fence around them.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ConfigError
from selftest_core.run.outcome.outcome import ChangeKind
from selftest_core.run.outcome.outcome_file import outcome_schema
from selftest_core.run.smoke import report_of

if TYPE_CHECKING:
    from selftest_core.run.plan.plan import PlannedTest, Role, RunPlan

SHIPPED = "tester.j2"
"""The template that a user's template may extend."""
_SHARED = "agent.j2"
SMOKE_TEMPLATE = "smoke.j2"
PROMPT_FILE = ".selftest/prompt.md"
"""Path of the prompt in an agent's copy of the repository."""
TASK_FOLDER = ".selftest/task"
"""Folder of the files of an agent's task, in its copy."""
PROMPT_LINE = f"Read {PROMPT_FILE} and do what it says."
"""First message to an LLM agent. Longer ones are wrapped as pasted text, which models are told to distrust."""
OUTCOME_NAME = "outcome.json"
BUNDLE_NAME = "branch.bundle"

NAMES = {
    "run": "the id of the run",
    "test": "the node id of the test",
    "base": "the full id of the commit that the agent starts from",
    "run_command": "the shell command that runs the test",
    "cited_blocks": "the tutorial blocks that the test cites, word for word",
    "brief": "what a role other than the tester is told about its task, as Markdown",
    "files": "the paths of the files of its task, from the top of its working directory",
    "minutes": "the agent's time in minutes, as text",
    "end_time": "the time of day when the agent's time is over, with its zone, as text",
    "kinds": "pairs of a kind of change and its meaning",
    "environment": "pairs of a variable's name and its meaning",
    "outcome_schema": "the JSON Schema of the outcome, as text",
    "outcome_example": "an example of an outcome, as text",
    "outcome_name": "the name of the outcome file",
    "bundle_name": "the name of the bundle",
}
"""The names that a template may use. The filter `fenced` puts a text between fences that it does not contain."""

KINDS = {
    ChangeKind.IMPROVE_TEST: "the test was right; now it proves more, or the same with less code",
    ChangeKind.FIX_TEST: "the test was wrong",
    ChangeKind.FIX_IMPL: "the program was wrong",
    ChangeKind.FIX_TUTORIAL: "the block of the tutorial was wrong",
    ChangeKind.CREATE_TEST: "a new test for a case of the block that no test covered",
}
_ROLE_KINDS: dict[Role, tuple[ChangeKind, ...]] = {
    "tester": tuple(KINDS),
    "drafter": (ChangeKind.FIX_TUTORIAL,),
    "writer": (ChangeKind.CREATE_TEST, ChangeKind.FIX_TEST, ChangeKind.IMPROVE_TEST, ChangeKind.FIX_IMPL),
    "integrator": (ChangeKind.FIX_IMPL, ChangeKind.FIX_TEST),
}
ENVIRONMENT = {
    "SELFTEST_RUN": "the id of this run",
    "SELFTEST_ROLE": "your role in it",
    "SELFTEST_TEST": "the id of your test",
    "SELFTEST_BASE": "the commit that your branch started from",
    "SELFTEST_OUT": "the folder for your results, as an absolute path",
    "SELFTEST_PROMPT_FILE": "a file with this prompt",
}
_EXAMPLE = {
    "errored": False,
    "tests_passing_before": False,
    "tests_passing_after": True,
    "summary_markdown": "Tax was cut off, not rounded. Fixed in `shop/cart.py`.",
    "changes": {
        "FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "`tax()` rounds half up, as the block promises."}
    },
    "test_runs": [{"run_name": "before", "description_markdown": "256 instead of 257"}],
    "escalations": [
        {
            "kind": "UNCAUGHT_BUG",
            "title": "`mean_price` of an empty cart divides by zero",
            "detail_markdown": "Seen while reading; no test covers it.",
            "locations": [{"path": "shop/cart.py", "line": 21}],
        }
    ],
    "importance": {"level": "high", "reason": "Guests are charged a wrong amount."},
}


def render_prompt(plan: RunPlan, test: PlannedTest, at: float) -> str:
    """Render the prompt of one test's agent, whose time starts at `at` (seconds since the epoch).

    Raises ConfigError if the user's template cannot be used.
    """
    values = {
        "run": plan.run,
        "test": test.node_id,
        "base": plan.base,
        "run_command": run_command(plan, test),
        "brief": test.brief,
        "files": [f"{TASK_FOLDER}/{file.name}" for file in test.files],
        "cited_blocks": list(test.blocks),
        "minutes": f"{plan.timeout / 60:.0f}" if plan.timeout >= 90 else f"{plan.timeout / 60:.1f}",
        "end_time": end_time(plan, at),
        "kinds": [(kind.value, KINDS[kind]) for kind in _ROLE_KINDS[plan.role]],
        "environment": list(ENVIRONMENT.items()),
        "outcome_schema": _schema_text(without_deprecated(outcome_schema())),
        "outcome_example": json.dumps(_EXAMPLE, indent=2),
        "outcome_name": OUTCOME_NAME,
        "bundle_name": BUNDLE_NAME,
    }
    return _render(plan.prompt_template or shipped_template(f"{plan.role}.j2"), values)


def end_time(plan: RunPlan, at: float) -> str:
    """Return the time of day when the time of an agent is over that starts at `at`."""
    return f"{datetime.fromtimestamp(at + plan.timeout, UTC):%H:%M} UTC"


def render_smoke_prompt(agent_id: str) -> str:
    """Render the prompt of a smoke agent: it writes an outcome with a nonce."""
    out = f'"$SELFTEST_OUT/{OUTCOME_NAME}'
    command = f'printf \'%s\\n\' {shlex.quote(report_of(agent_id))} > {out}.draft"\nmv {out}.draft" {out}"'
    return _render(shipped_template(SMOKE_TEMPLATE), {"command": command})


def run_command(plan: RunPlan, test: PlannedTest) -> str:
    """Make the shell command that runs one test, from the top of the repository; for other roles it names no test."""
    return shlex.join((*plan.pytest_command, *plan.pytest_args, *((test.node_id,) if plan.role == "tester" else ())))


def shipped_template(name: str = SHIPPED) -> str:
    """Read a template that is part of the package."""
    return (resources.files("selftest_core.run.plan") / "prompts" / name).read_text(encoding="utf-8")


def fenced(text: str, language: str = "") -> str:
    """Put a text between Markdown fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.removesuffix('\n')}\n{fence}"


def _render(template: str, values: dict[str, Any]) -> str:
    from jinja2 import DictLoader, StrictUndefined, TemplateError, TemplateSyntaxError  # slow to import
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader({name: shipped_template(name) for name in (_SHARED, SHIPPED)}),
        undefined=StrictUndefined,
        autoescape=False,  # Markdown, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["fenced"] = fenced
    hint = f'It may use {", ".join(sorted(NAMES))}; `{{% extends "{SHIPPED}" %}}` extends the default template.'
    try:
        made = environment.from_string(template).render(values)
    except TemplateSyntaxError as error:
        raise ConfigError(
            "The prompt template cannot be read", f"line {error.lineno}: {error.message}", hint
        ) from error
    except TemplateError as error:
        raise ConfigError("The prompt template cannot be used", str(error.message), hint) from error
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        raise ConfigError("The prompt template cannot be used", f"{type(error).__name__}: {error}", hint) from error
    if not made.strip():
        raise ConfigError("The prompt template is empty", "It renders an empty text.", hint)
    return made


def without_deprecated(schema: Any) -> Any:
    """Remove the fields that are only read from old runs: an agent would fill them in."""
    if isinstance(schema, list):
        return [without_deprecated(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if not (isinstance(part, dict) and part.get("deprecated"))}
    return {name: without_deprecated(part) for name, part in kept.items()}


def _schema_text(schema: dict[str, Any]) -> str:
    """Print the schema with small objects on one line: agents read it, and pay for each line."""
    text = json.dumps(schema, indent=2)
    return re.sub(r"[\[{]\n\s+[^\[\]{}]{0,160}[\]}]", lambda small: re.sub(r"\n\s*", " ", small[0]), text)
