"""Names of agents and labels: fit for every tool that meets them, and never two alike."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.run.plan import names
from selftest_core.run.plan.names import agent_names, label_of, labels

RUN = "20261121-0931-7f3a"
HARD = [
    "tests/test_it.py::test_a[x/../y z]",
    "tests/test_it.py::test_a[x y-z]",
    "tests/test_it.py::test_a[\u00fcber]",
    "tests/test_it.py::test_a[\U0001f600]",
    "tests/test_it.py::test_a[\ud800\n\x1b[31m]",
    "tests/test_it.py::" + "test_" + "long_" * 60 + "a",
    "tests/test_it.py::" + "test_" + "long_" * 60 + "b",
    "tests/other.py::test_a[x y-z]",
    "tests/test_it.py::TestIt::test_",
    "\u6e2c\u8a66",
    "::[",
]
NODE_IDS = st.lists(st.one_of(st.sampled_from(HARD), st.text(max_size=300)), max_size=20)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(NODE_IDS)
def test_names_are_fit_and_no_two_are_alike(node_ids: list[str]) -> None:
    given_names = agent_names(RUN, node_ids)
    assert set(given_names) == set(node_ids)
    assert len(set(given_names.values())) == len(set(node_ids))
    for name in given_names.values():
        assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])", name)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(NODE_IDS)
def test_a_label_leads_back_to_its_test(node_ids: list[str]) -> None:
    for node_id in node_ids:
        label = labels(RUN, node_id)[names.TEST_LABEL]
        assert len(label) <= names.LONGEST_LABEL
        assert "\n" not in label
        label.encode()
        assert [one for one in dict.fromkeys(node_ids) if label_of(one) == label] == [node_id]


def test_a_name_begins_with_the_words_of_its_test_and_ends_with_its_run() -> None:
    node_id = "tests/shop/test_pay.py::TestPay::test_refund_never_exceeds[card-\u00fc]"
    assert re.fullmatch(r"refund-never-exceeds-card-u-[0-9a-f]{8}-7f3a", agent_names(RUN, [node_id])[node_id])


def test_a_name_does_not_depend_on_the_other_tests() -> None:
    together = agent_names(RUN, HARD)
    assert all(agent_names(RUN, [node_id]) == {node_id: together[node_id]} for node_id in HARD)
    other_run = agent_names("20261121-0931-0000", HARD)
    assert not set(other_run.values()) & set(together.values())


def test_an_ordinary_node_id_is_its_own_label() -> None:
    node_id = "tests/test_it.py::test_a[\u00fc b/c]"
    assert labels(RUN, node_id, "integrator") == {
        "selftest_run": RUN,
        "selftest_role": "integrator",
        "selftest_test": node_id,
    }
