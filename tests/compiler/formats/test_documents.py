"""Documents know which values they hold, and where."""

import pytest

from tests import builders

ITEM = builders.policy("tls", default=True, driver={"sriov": {"hpre": 4}, "env": []})


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (("spec", "driver"), True),
        (("spec", "driver", "sriov", "hpre"), True),
        (("spec", "driver", "sriov", "zip"), False),
        (("spec", "driver", "env", 0), False),
        (("spec", "default", "a"), False),
    ],
)
def test_a_document_knows_what_it_writes_itself(path: tuple[str | int, ...], written: bool) -> None:
    assert ITEM.source.has(path) is written


@pytest.mark.parametrize(
    ("path", "text", "column"),
    [
        (("spec", "default"), "  default: true", 12),
        (("spec", "driver", "sriov"), "    sriov:", 5),
        (("spec", "driver", "env"), "    env: []", 5),
    ],
)
def test_a_setting_is_shown_at_its_value_and_a_mapping_or_a_list_at_its_key(
    path: tuple[str, ...], text: str, column: int
) -> None:
    place = ITEM.source.setting_span(*path)

    assert (place.text, place.column) == (text, column)


def test_a_setting_that_is_not_written_is_shown_at_the_name() -> None:
    assert ITEM.source.setting_span("spec", "driver", "version") == ITEM.source.span("metadata", "name")
