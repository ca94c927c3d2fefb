"""Canonical text means the same to every reader, above all to kubectl and its kustomize."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.formats import canonical, yaml_text
from tests import effort, kubernetes

# Strings that some dumper leaves plain and some reader of Kubernetes takes for something else, and their kin.
AMBIGUOUS = [
    *("19e5", "y", "Y", "n", "N", "yes", "No", "ON", "off", "true", "False", "NULL", "null", "~", "0o644"),
    *("-0o17", "0644", "08", "09", "1e3", "1E5", "12e03", "1e+3", "1e-3", "1.5e3", "1.e3", "+.5", ".5"),
    *("1.", "+1", "-1", "0", "1_000", "0x1f", "0b10", "0b-1", "1:20", "12:30:45", "0000:35:00.0"),
    *("2001-01-01", "2001-01-01T00:00:00Z", "=", "<<", "-", "?", ":", ".inf", "-.inf", ".nan", ".NaN"),
    *("nan", "Inf", "infinity", "&", "*", "!", "|", ">", "'", "%", "@", "`", "{", "}", "[", "]", ",", "#"),
    *("---", "...", "1.30", "v:", "10%", "#a"),
]
AWKWARD = [
    *("", " ", "\n", "\n\n", "\t", " a", "a ", "a\t", "a #b", "a: b", "a:", "a\n", "a\n\n", "\na", " a\nb", "a \nb"),
    *("a\n b\n", "a\n\tb\n", "a\nb ", "a\t\nb", "#!/bin/sh\necho $a\n\nexit 0\n", "a\r\nb", "a\rb", "- a\n- b", "é\n"),
    *(
        "a\x85b",
        "a\u2028b\u2029",
        "\ufeffa",
        "a\ufeff\nb",
        "😀\n😀",
        "\x00",
        "\x1b[0m",
        "\x7f",
        "\xa0",
        "\ufffe",
        '"\\',
    ),
]
PIECES = [*AMBIGUOUS, *AWKWARD, *"a1 \n\t\r:#-\"'\\{}[],&*!|>%@`~=é😀\x00\x07\u2028\ufeff"]
# kustomize reads its own JSON as YAML, where these, being raw, are refused,
NOT_FOR_KUSTOMIZE = str.maketrans("", "", "\x7f\x85\ufffe\uffff")
# and it writes annotations in blocks even where they begin with a tab, which it then cannot read.

values = st.recursive(
    st.text() | st.booleans() | st.integers(-(10**18) + 1, 10**18 - 1) | st.sampled_from(PIECES),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20) | st.sampled_from(PIECES), inner, max_size=4)
    ),
    max_leaves=12,
).filter(lambda value: "<<" not in canonical.dump_json(value))


def many_strings(count: int) -> list[str]:
    """Awkward strings and mixtures of them, the same each time."""
    draw = random.Random(19)  # noqa: S311 - the same strings each time are the point
    mixed = ["".join(draw.choices(PIECES, k=draw.randint(1, 6))) for _ in range(count)]
    return [*AMBIGUOUS, *AWKWARD, *mixed]


def config_map(strings: list[str]) -> dict[str, Any]:
    data = {f"value-{index}": text for index, text in enumerate(strings)}
    data |= {text: text for text in strings if text != "<<"}
    annotations = {f"annotation-{index}": text for index, text in enumerate(strings)}
    metadata = {"name": "strings", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_kubectl_reads_every_string_as_it_was_meant() -> None:
    written = config_map(many_strings(1500))

    assert kubernetes.as_kubectl_reads(canonical.dump_yaml(written)) == written


def test_kustomize_reads_every_string_as_it_was_meant(tmp_path: Path) -> None:
    written = config_map([text.translate(NOT_FOR_KUSTOMIZE).lstrip("\t") for text in many_strings(1500)])
    (tmp_path / "strings.yaml").write_bytes(canonical.dump_yaml(written).encode())
    (tmp_path / "kustomization.yaml").write_text("resources: [strings.yaml]\n", "utf-8")

    assert kubernetes.as_kubectl_reads(kubernetes.kubectl("kustomize", str(tmp_path))) == written


@given(values)
@settings(max_examples=effort.examples(gate=25, long=150))
def test_whatever_is_written_is_read_back(value: Any) -> None:
    written = canonical.dump_yaml({"value": value})
    (document,), findings = yaml_text.read(written, "written.yaml")

    assert (document.data, findings) == ({"value": value}, [])
    assert yaml.safe_load(written) == {"value": value}


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_string_that_some_reader_misreads_is_quoted(text: str) -> None:
    assert canonical.dump_yaml([text]) == f"- {canonical.quoted(text)}\n"


@pytest.mark.parametrize(
    "text",
    ["a", "kae-driver", "openfuyao.com/kae.present", "/host/lib", "repo/image:v1", "a b", "a, b", "nope", "e5", "f(x)"],
)
def test_a_string_that_nobody_misreads_is_plain(text: str) -> None:
    assert canonical.dump_yaml({text: text}) == f"{text}: {text}\n"


def test_the_layout_is_that_of_kubectl() -> None:
    data = {"b": [{"y1": 1, "x": [[1, 2], [{"z": True}]]}, "s", ["t"]], "a": {"": {"é": -1.5}}, "c": (), "d": {}}

    assert canonical.dump_yaml(data) == (
        'a:\n  "":\n    "é": -1.5\nb:\n- x:\n  - - 1\n    - 2\n  - - z: true\n  y1: 1\n- s\n- - t\nc: []\nd: {}\n'
    )


def test_several_lines_are_a_literal_block_at_any_depth() -> None:
    script = "#!/bin/sh\nif a; then\n\tb: c\nfi\n\nexit 0"

    assert canonical.dump_yaml({"a": [{"run": script + "\n"}], "b": [script]}) == (
        "a:\n- run: |\n    #!/bin/sh\n    if a; then\n    \tb: c\n    fi\n\n    exit 0\n"
        "b:\n- |-\n  #!/bin/sh\n  if a; then\n  \tb: c\n  fi\n\n  exit 0\n"
    )


@pytest.mark.parametrize(
    "text", [" a\nb", "\na", "\ta\nb", "a \nb", "a\t\nb", "a\nb ", "a\n\n", "\n", "a\r\nb", "a\n\u2028", "\x01\na"]
)
def test_lines_that_a_block_would_hide_or_change_are_quoted(text: str) -> None:
    assert canonical.dump_yaml({"k": text}) == f"k: {canonical.quoted(text)}\n"


def test_a_long_line_is_not_folded() -> None:
    words = "word " * 200 + "end"

    assert canonical.dump_yaml({"plain": words, "quoted": "1 " + words}).count("\n") == 2


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"a": None},
        [None],
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 1e-7},
        {"a": 1e22},
        {"a": 10**18},
        {"a": b"bytes"},
        {1: "a"},
        {True: "a"},
        {None: "a"},
        {"a": "\ud800"},
        {"<<": "a"},
        {"k" * 1001: "a"},
    ],
)
def test_what_a_manifest_cannot_hold_is_refused(data: Any) -> None:
    with pytest.raises(TypeError):
        canonical.dump_yaml(data)


def test_booleans_are_not_mixed_up_with_numbers() -> None:
    assert canonical.dump_yaml([1, True, 1.0, 0, False]) == "- 1\n- true\n- 1.0\n- 0\n- false\n"


def test_json_is_compact_sorted_and_readable() -> None:
    assert canonical.dump_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'


def test_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical.dump_json(float("nan"))
