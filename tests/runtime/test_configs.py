"""Schema and decoder of each program's config agree, and the decoder reads what the compiler writes."""

import json
from typing import Any

import msgspec
import pytest

from tests import mutations
from tests.runtime.programs import PROGRAMS, Program, config_of_watcher, configs_of_driver

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def restricted(data: Any, to: Any) -> Any:
    """Return the part of data that the other has, too: what is left out has its default."""
    if isinstance(to, dict):
        return {key: restricted(data[key], to[key]) for key in to}
    return [restricted(*pair) for pair in zip(data, to, strict=True)] if isinstance(to, list) else data


def read_and_written(program: Program, data: Any) -> Any:
    """Return data after the program has read it."""
    config = program.language.decoded(data)
    assert config, data
    return json.loads(msgspec.json.encode(config))


@programs
def test_every_config_that_is_checked_in_is_read(program: Program) -> None:
    texts = [text for _, text in mutations.rendered(program.file)]

    assert len(texts) >= 2
    for text in texts:
        program.language.judge.validate(json.loads(text))
        assert program.language.decoded(json.loads(text)), text


@programs
def test_what_the_compiler_writes_is_read_without_loss(program: Program) -> None:
    for data in [*map(json.loads, program.written()), *(full for full, _ in program.fulls)]:
        program.language.judge.validate(data)
        assert restricted(read_and_written(program, data), data) == data


@programs
def test_what_is_absent_has_the_default_of_the_schema_or_is_empty(program: Program) -> None:
    for definition, full, position in program.objects():
        for name in mutations.at(full, position).keys() - definition.get("required", ()):
            smaller = mutations.without(full, (*position, name))
            if (*position, name) in program.references or not program.language.judge.is_valid(smaller):
                continue
            value = mutations.at(read_and_written(program, smaller), position).get(name)
            default = definition["properties"][name].get("default")
            if default is not None:
                assert restricted(value, default) == default
            elif value:
                empty = mutations.changed(full, (*position, name), {})
                assert value == mutations.at(read_and_written(program, empty), position)[name]


@pytest.mark.parametrize(
    ("program", "full", "below"), [(program, full, below) for program in PROGRAMS for full, below in program.fulls]
)
def test_the_schema_and_the_decoder_agree_on_every_change_of_a_full_config(
    program: Program, full: dict[str, Any], below: mutations.Position
) -> None:
    decisions = [
        (position, what, program.language.judge.is_valid(data), program.language.decoded(data) is not None)
        for position, what, data in mutations.mutants(full, program.values, program.keys, below)
    ]

    disagreed = {
        (position, what)
        for position, what, allowed, read in decisions
        if allowed != read and not (allowed and position in program.references)
    }
    changed = {position for position, *_ in decisions}
    assert disagreed == {(position, "is null") for position in changed.intersection(program.nullable)}
    assert {allowed for _, _, allowed, _ in decisions} == {True, False}


@pytest.mark.parametrize(
    ("program", "position"), [(program, position) for program in PROGRAMS for position in program.integers]
)
def test_a_whole_number_with_a_point_is_whole_for_schemas_alone(program: Program, position: mutations.Position) -> None:
    # JSON Schema calls 1.0 an integer; the compiler never writes it, and the decoder is strict.
    full, _ = program.fulls[0]
    data = mutations.changed(full, position, float(mutations.at(full, position)))

    assert program.language.judge.is_valid(data)
    assert program.language.decoded(data) is None


@programs
def test_the_full_configs_have_every_field_of_the_schema(program: Program) -> None:
    schema = program.language.schema

    assert program.definitions.keys() == schema["$defs"].keys()
    for name, definition in {"": schema, **schema["$defs"]}.items():
        objects = [mutations.at(full, position) for found, full, position in program.objects() if found is definition]
        assert set().union(*objects) == definition.get("properties", {}).keys(), name


@pytest.mark.parametrize(
    ("driver", "position"),
    [
        ({"presentWhen": "Loaded", "source": {"inTree": {}}}, ("presentWhen",)),
        ({"source": {"build": {"credentialsSecret": "mirror"}}}, ("source", "build", "credentialsSecret")),
        (
            {"source": {"packages": {"names": ["kae"], "credentialsSecret": "mirror"}}},
            ("source", "packages", "credentialsSecret"),
        ),
    ],
)
def test_a_field_of_a_policy_reaches_the_installer(driver: dict[str, Any], position: mutations.Position) -> None:
    (config,) = map(json.loads, configs_of_driver({"driver": driver}))

    assert mutations.at(config, position) == mutations.at(driver, position)


def test_a_field_of_a_cluster_reaches_the_watcher() -> None:
    cluster = {"watcher": {"maxLossNodes": 7}}

    assert json.loads(config_of_watcher(cluster["watcher"]))["maxLossNodes"] == 7
