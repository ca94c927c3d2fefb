"""What a config of the installer may not be; tests/runtime/test_configs.py compares schema and decoder."""

from typing import Any

import pytest

from tests.runtime.programs import DRIVER, DRIVER_OF_RECIPE, INSTALLER, SOURCES

LANGUAGE = INSTALLER.language


@pytest.mark.parametrize("other", SOURCES)
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_exactly_one_for_both(name: str, other: str) -> None:
    data = DRIVER | {"source": {name: SOURCES[name], other: SOURCES[other]}}

    assert LANGUAGE.judge.is_valid(data) is (LANGUAGE.decoded(data) is not None) is (name == other)


def test_a_source_that_is_null_is_absent_for_the_decoder_alone() -> None:
    data = DRIVER | {"source": {"prebuilt": {}, "build": None}}

    assert not LANGUAGE.judge.is_valid(data)
    assert LANGUAGE.decoded(data)


@pytest.mark.parametrize(
    ("data", "valid"),
    [
        (DRIVER | {"class": "none"}, False),
        (DRIVER_OF_RECIPE | {"class": "uacce", "kinds": []}, True),
        (DRIVER_OF_RECIPE | {"sriov": {"sfc": 1}}, False),
        (DRIVER_OF_RECIPE | {"deviceNodes": {"mode": "0660"}}, False),
        (DRIVER_OF_RECIPE | {"presentWhen": "Loaded"}, False),
        (DRIVER_OF_RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924"}]}, False),
        (DRIVER_OF_RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924", "devices": [], "classes": ["0200"]}]}, True),
        (DRIVER_OF_RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924", "classes": ["0200"]}]}, True),
    ],
)
def test_a_class_has_its_own_fields_and_no_kind_is_every_device_of_a_vendor(data: dict[str, Any], valid: bool) -> None:
    assert LANGUAGE.judge.is_valid(data) is (LANGUAGE.decoded(data) is not None) is valid
