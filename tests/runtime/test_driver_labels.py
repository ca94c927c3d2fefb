"""A version as the value of a label: what every label takes, and no two versions the same by being cut."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from runtime import driver_labels

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("2.3.0", "2.3.0"),
        ("2.3.0+git~1", "2.3.0_git_1"),
        ("-2.3.0-", "2.3.0"),
        ("1:2.3 (x)", "1_2.3__x"),
        ("", ""),
        ("x" * 63, "x" * 63),
        (DIGEST, "sha256_0123456789abcdef0123456789abcdef0123456789abcde.4744ff34"),
    ],
)
def test_a_version_is_kept_as_far_as_a_label_can_hold_it(version: str, value: str) -> None:
    assert driver_labels.value(version) == value


def test_versions_that_begin_alike_stay_different() -> None:
    assert driver_labels.value("x" * 64) != driver_labels.value("x" * 65)


@hypothesis.given(st.text())
def test_every_value_is_one_that_a_label_can_have(version: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", driver_labels.value(version))
