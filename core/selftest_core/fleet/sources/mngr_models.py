"""Pydantic models of `mngr list --format json`, for `mngr_list` alone.

Strict for addresses: an agent without a plain id, a name, a host id or a provider is refused. Lenient elsewhere, so
that newer versions of mngr work: a field that is missing, null, unknown or of another type has its default. A module of
its own, since importing pydantic takes a tenth of a second that most starts never need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from selftest_core.tools.mngr_files import instant_of, replace_surrogates

_PLAIN_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


def _text(value: object) -> object:
    return replace_surrogates(value) if isinstance(value, str) else value


def _text_or_nothing(value: object) -> str | None:
    return replace_surrogates(value) if isinstance(value, str) else None


def _text_or_empty(value: object) -> str:
    return _text_or_nothing(value) or ""


def _word(value: object) -> str:
    """Keep a word of mngr, whatever its type."""
    return "" if value is None else replace_surrogates(value if isinstance(value, str) else repr(value))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _truth(value: object) -> bool:
    return value is True


def _labels(value: object) -> dict[str, str]:
    return {replace_surrogates(str(k)): _word(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


type Identity = Annotated[str, Field(strict=True, pattern=_PLAIN_ID, max_length=200)]
type Name = Annotated[str, BeforeValidator(_text), Field(strict=True, min_length=1)]
type Word = Annotated[str, BeforeValidator(_word)]
type Text = Annotated[str, BeforeValidator(_text_or_empty)]
type OptionalText = Annotated[str | None, BeforeValidator(_text_or_nothing)]
type OptionalNumber = Annotated[float | None, BeforeValidator(_number)]
type OptionalWholeNumber = Annotated[int | None, BeforeValidator(_whole_number)]
type OptionalInstant = Annotated[float | None, BeforeValidator(instant_of)]
type Truth = Annotated[bool, BeforeValidator(_truth)]
type Labels = Annotated[dict[str, str], BeforeValidator(_labels)]
type AnyMapping = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class _LenientModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class SshModel(_LenientModel):
    """`host.ssh`."""

    command: Name
    user: OptionalText = None
    host: OptionalText = None
    port: OptionalWholeNumber = None
    key_path: OptionalText = None
    known_hosts_path: OptionalText = None


class HostModel(_LenientModel):
    """`host`. The JSON calls the provider `provider_name`, other views of mngr `provider`."""

    id: Identity
    name: Text = ""
    provider: Name = Field(validation_alias=AliasChoices("provider_name", "provider"))
    state: OptionalText = None
    ssh: AnyMapping = {}
    image: OptionalText = None
    boot_time: OptionalInstant = None
    is_locked: Truth = False
    failure_reason: OptionalText = None


class AgentModel(_LenientModel):
    """One of `agents`."""

    id: Identity
    name: Name
    host: HostModel
    type: Text = ""
    state: Word = ""
    command: Text = ""
    work_dir: Text = ""
    initial_branch: OptionalText = None
    create_time: OptionalInstant = None
    start_time: OptionalInstant = None
    pid: OptionalWholeNumber = None
    url: OptionalText = None
    user_activity_time: OptionalInstant = None
    agent_activity_time: OptionalInstant = None
    idle_seconds: OptionalNumber = None
    idle_mode: OptionalText = None
    start_on_boot: Truth = False
    labels: Labels = {}
    plugin: AnyMapping = {}


class ErrorModel(_LenientModel):
    """One of `errors`."""

    exception_type: Text = ""
    message: Text = ""
    is_provider_inaccessible: Truth = False
    help_text: Text = ""
    provider_name: OptionalText = None
    short_reason: Text = ""
    short_remediation: Text = ""
    host_id: OptionalText = None
    agent_id: OptionalText = None
