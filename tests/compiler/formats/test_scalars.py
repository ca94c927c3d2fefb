"""An accepted plain scalar means the same to Go and to Python; a refused one comes with a hint."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.formats import scalars, yaml_text
from tests import kubernetes

PIECES = [
    *("0123456789+-._:eE/%amfynTZ~=" + " " * 3),
    *("0x", "0b", "0o", "on", "off", "no", "inf", ".inf", ".nan", "-01", "12:30", "20:", "2001-01-01", "true"),
    *("True", "null", "Null", "NULL", "<<", "1.5", "Mi", "T10:00:00", "-"),
]


def accepted_scalars(count: int) -> dict[str, tuple[str, Any]]:
    """Plain scalars that look like numbers, dates and words, and what we read them as; the same each time."""
    draw = random.Random(7)  # noqa: S311 - the same scalars each time are the point
    accepted: dict[str, tuple[str, Any]] = {}
    for index in range(count):
        text = "".join(draw.choices(PIECES, k=draw.randint(1, 6))).strip()
        documents, findings = yaml_text.read(f"k: {text}\n", "k.yaml")
        if not findings and len(documents) == 1 and list(documents[0].data) == ["k"]:
            accepted[f"k{index}"] = (text, documents[0].data["k"])
    return accepted


@pytest.fixture(scope="module")
def accepted() -> dict[str, tuple[str, Any]]:
    return accepted_scalars(4000)


@pytest.fixture(scope="module")
def manifest(accepted: dict[str, tuple[str, Any]]) -> str:
    lines = (f"  {key}: {text}\n" for key, (text, _) in accepted.items())
    return "apiVersion: example.com/v1\nkind: Any\nmetadata:\n  name: any\nspec:\n" + "".join(lines)


def differences(accepted: dict[str, tuple[str, Any]], spec: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the scalars that a reader took for something else; JSON has one kind of number, so 1.0 and 1 are equal."""
    return [
        (text, ours, spec.get(key))
        for key, (text, ours) in accepted.items()
        if spec.get(key) != ours or isinstance(spec.get(key), bool) != isinstance(ours, bool)
    ]


def test_kubectl_agrees_on_every_scalar_that_is_accepted(accepted: dict[str, tuple[str, Any]], manifest: str) -> None:
    assert differences(accepted, kubernetes.as_kubectl_reads(manifest)["spec"]) == []
    assert len(accepted) > 2000


def test_kustomize_agrees_on_every_scalar_that_is_accepted(
    accepted: dict[str, tuple[str, Any]], manifest: str, tmp_path: Path
) -> None:
    (tmp_path / "any.yaml").write_text(manifest, "utf-8")
    (tmp_path / "kustomization.yaml").write_text("resources: [any.yaml]\n", "utf-8")
    built = kubernetes.kubectl("kustomize", str(tmp_path))

    assert differences(accepted, kubernetes.as_kubectl_reads(built)["spec"]) == []


def test_python_agrees_on_every_scalar_that_is_accepted(accepted: dict[str, tuple[str, Any]], manifest: str) -> None:
    assert differences(accepted, yaml.safe_load(manifest)["spec"]) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(text, None) for text in ("", "~", "null", "Null", "NULL")],
        *[(text, True) for text in ("true", "True", "TRUE")],
        *[(text, False) for text in ("false", "False", "FALSE")],
        *[("0", 0), ("-0", 0), ("7", 7), ("-12", -12), ("9" * 18, 10**18 - 1)],
        *[("0.5", 0.5), ("-10.25", -10.25), ("1.0", 1.0)],
    ],
)
def test_what_all_readers_share_has_its_value(text: str, value: Any) -> None:
    scalar = scalars.plain(text)

    assert (scalar, type(scalar.value)) == (scalars.Scalar(value), type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("kae", "10%", "5m", "100Mi", "v1.2", "1.2.3", "10.0.0.1", "10.0.0.1:80", "4.19.90-2112.8.0.0131.oe1"),
        *("0000:75:00.0", "sha256:0a1b", "0g", "e5", "nan", "inf", "-", "yep", "2001-01", "12:60", "00:11:22", "_1"),
        *("1e", "e1", "0x1g", "1-2", "a" * 200, "0123456789abcdef" * 4 + "g" * 40),
    ],
)
def test_what_nobody_takes_for_anything_else_is_a_string(text: str) -> None:
    assert scalars.plain(text) == scalars.Scalar(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        *[(text, "true for the boolean") for text in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")],
        *[(text, "false for the boolean") for text in ("n", "N", "no", "No", "NO", "off", "Off", "OFF")],
        *[("19e5", "1900000 for the number"), ("1e3", "1000 for the number"), ("1E5", "100000 for the number")],
        *[("12e03", "12000 for the number"), ("1e+3", "1000 for the number"), ("1e-3", "0.001 for the number")],
        *[("1.5e3", "1500 for the number"), ("1.e3", "1000 for the number"), ("+.5", "0.5 for the number")],
        *[(".5", "0.5 for the number"), ("1.", "1 for the number"), ("+1", "1 for the number")],
        *[("0644", "420 for the number"), ("0o644", "420 for the number"), ("-0o17", "-15 for the number")],
        *[("08", "8 for the number"), ("09", "9 for the number"), ("1_000", "1000 for the number")],
        *[("0x1f", "31 for the number"), ("0b10", "2 for the number"), ("0b-1", ""), ("0o+6", "")],
        *[(text, "") for text in ("1:20", "12:30:45", "1:20.5", "0000:35:00.0", "2001-01-01", "2001-1-1")],
        *[(text, "") for text in ("2001-01-01T10:00:00Z", "2001-01-01 10:00:00.5 +01:00", "=", "<<")],
        *[(text, "") for text in (".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1e999", "1e-9", "0x" + "f" * 70)],
        *[("1" * 30 + "e3", ""), ("1" * 400 + ".0", ""), ("1:" * 100 + "1", "")],
    ],
)
def test_what_readers_dispute_is_refused_with_what_else_to_write(text: str, other: str) -> None:
    scalar = scalars.plain(text)

    assert (scalar.value, bool(scalar.problem), scalar.other) == (text, True, other)


@pytest.mark.parametrize("text", ["1" + "0" * 18, "-1" + "0" * 18, "9" * 60])
def test_an_integer_that_loses_digits_is_refused(text: str) -> None:
    assert scalars.plain(text).problem == "has more digits than every YAML reader keeps"
