"""A config is exactly what the program reads, or the sentence says where it is not."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from runtime import errors, shapes


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pf: str


class Versioned(shapes.Shape, frozen=True, kw_only=True):
    version: Literal[2] = 2
    known: int = 0


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kinds: tuple[Kind, ...]


def test_a_config_of_the_right_shape_is_decoded(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"kinds": [{"pf": "a258"}]}')

    assert shapes.load(file, Shape) == Shape((Kind("a258"),))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"kinds": [{"pf": 1}]}', "does not fit this program at $.kinds[0].pf: Expected `str`, got `int`."),
        (b'{"kinds": [{}]}', "does not fit this program at $.kinds[0]: Object missing required field `pf`."),
        (
            b'{"kinds": [], "x": 1}',
            "does not fit this program at $: Object contains unknown field `x`. Perhaps a newer kae",
        ),
        (b"[]", "does not fit this program at $: Expected `object`, got `array`."),
        (b'{"kinds": [', "is no JSON: Input data was truncated."),
        (b'{"kinds": ]}', "is no JSON: JSON is malformed"),
        (b'{"kinds": [{"pf": "\xff"}]}', "is no JSON: 'utf-8' codec can't decode byte 0xff"),
        (b"", "is empty; in a pod it is the annotation device.openfuyao.com/config"),
    ],
)
def test_a_wrong_config_is_named_with_place_and_what_was_expected(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(errors.ConfigError) as caught:
        shapes.load(file, Shape)

    assert str(caught.value).startswith(f"The config '{file}' {said}")


@pytest.mark.parametrize("rest", ["", ', "known": 1', ', "known": "text"', ', "aNewField": {}'])
def test_a_config_of_a_newer_version_is_refused_as_newer_whatever_else_is_in_it(tmp_path: Path, rest: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(f'{{"version": 3{rest}}}')

    with pytest.raises(errors.ConfigError) as caught:
        shapes.load(file, Versioned)

    assert str(caught.value) == (
        f"The config '{file}' has version 3, and this program reads version 2: a newer kae compiled it: give the "
        "program the image of that release, or compile with the release of this one."
    )


def test_a_missing_config_is_said_with_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        shapes.load(tmp_path / "config.json", Shape)

    assert str(caught.value) == (
        f"The config '{tmp_path}/config.json' cannot be read (No such file or directory); in a pod it is the "
        "annotation device.openfuyao.com/config, projected to /etc/kae/config.json."
    )


def test_a_folder_in_place_of_a_config_is_a_failure_too(tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match="Is a directory"):
        shapes.load(tmp_path, Shape)
