"""Schema and decoder of each program's config agree; the constants are those of the program's own test_config."""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from tests import mutations
from tests.device_plugin import test_config as device_plugin
from tests.installer import test_config as installer
from tests.watcher import test_config as watcher

PROGRAMS = (device_plugin, installer, watcher)


def _fulls(program: ModuleType) -> Sequence[dict[str, Any]]:
    """Return the full configs of a program: one for KAE and one for a recipe, if it serves recipes."""
    fulls: Sequence[dict[str, Any]] = getattr(program, "FULLS", (program.FULL,))
    return fulls


programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.split(".")[1])


@pytest.mark.parametrize(
    ("program", "pattern", "least"),
    [
        (device_plugin, "daemonset-kae-device-plugin-*.yaml", 11),
        (installer, "daemonset-kae-driver-*.yaml", 11),
        (watcher, "deployment-kae-watcher.yaml", 2),
    ],
)
def test_every_config_that_is_checked_in_is_read(program: ModuleType, pattern: str, least: int) -> None:
    texts = dict(mutations.rendered(pattern))

    assert len(texts) >= least
    for file, text in texts.items():
        program.LANGUAGE.judge.validate(json.loads(text))
        assert program.LANGUAGE.decoded(json.loads(text)), file


@pytest.mark.parametrize(("program", "full"), [(program, full) for program in PROGRAMS for full in _fulls(program)])
def test_the_schema_and_the_decoder_agree_on_every_change_of_a_full_config(
    program: ModuleType, full: dict[str, Any]
) -> None:
    decisions = [
        (position, what, program.LANGUAGE.judge.is_valid(data), program.LANGUAGE.decoded(data) is not None)
        for position, what, data in mutations.mutants(full, program.VALUES, program.KEYS)
    ]

    # The decoder also looks up names, as no schema can.
    references = getattr(program, "REFERENCES", ())
    disagreed = {
        (position, what)
        for position, what, allowed, read in decisions
        if allowed != read and not (allowed and position in references)
    }
    nullable = {position for position in program.NULLABLE if position in set(mutations.positions(full))}
    assert disagreed == {(position, "is null") for position in nullable}
    assert {allowed for _, _, allowed, _ in decisions} == {True, False}


@pytest.mark.parametrize(
    ("program", "position"), [(program, position) for program in PROGRAMS for position in program.INTEGERS]
)
def test_a_whole_number_with_a_point_is_whole_for_the_schema_alone(
    program: ModuleType, position: mutations.Position
) -> None:
    # JSON Schema calls 1.0 an integer; the compiler never writes it, and the decoder is strict.
    data = mutations.changed(program.FULL, position, 1.0)

    assert program.LANGUAGE.judge.is_valid(data)
    assert program.LANGUAGE.decoded(data) is None


@programs
def test_the_full_config_has_every_field_of_the_schema(program: ModuleType) -> None:
    schema = program.LANGUAGE.schema

    assert set().union(*_fulls(program)) == schema["properties"].keys()
    assert program.DEFINITIONS.keys() == schema["$defs"].keys()
    for name, data in program.DEFINITIONS.items():
        assert data.keys() == schema["$defs"][name]["properties"].keys()
