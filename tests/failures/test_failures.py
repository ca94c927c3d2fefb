"""Every code has its documents, in tests/failures/<code>/project or made by `projects`, and their exact text."""

import json
from pathlib import Path

import pytest

from compiler import diagnostics
from tests import in_process, project
from tests.failures import projects, risks
from tests.failures.cases import CASES, HERE, prepared

OF_IMPORT = {code for code in diagnostics.CODES if code.startswith("import-")}
"""Codes of `kae import` alone, which reads no project; IMPORT_TESTS earn these codes."""
OF_RECIPES = {"recipe-behind"}
"""Codes of `kae recipe` alone."""
IMPORT_TESTS = HERE.parent / "cli/test_import.py"


@pytest.mark.parametrize("code", CASES)
def test_the_documents_of_a_code_earn_exactly_its_text(code: str, tmp_path: Path) -> None:
    folder = prepared(code, tmp_path / "project")
    before = project.tree(folder / "output")

    command: tuple[str, ...] = ("diff",) if code in risks.CHANGES else ("compile", "--no-cache")
    if (folder / projects.IMAGE).exists():
        command = ("preflight", "--image", projects.IMAGE)
    elif code in OF_RECIPES:
        command = ("recipe", "list")
    answer = in_process.kae(folder, *command)

    *lines, summary = answer.err.splitlines(keepends=True)
    shown = "".join(lines)
    assert summary.split()[1].strip(",;s") in ("error", "warning")
    severity = diagnostics.CODES[code].severity
    assert shown == project.expected(HERE / code / "expected.txt", shown)
    assert f"{severity}[{code}]" in answer.err
    assert answer.code == (1 if "error[" in answer.err else 0)
    if answer.code:
        assert project.tree(folder / "output") == before


def test_every_fault_of_every_document_is_shown_at_once(tmp_path: Path) -> None:
    spec = "  default: true\n  nodeSelector: {}\n  driver:"
    policy = projects.POLICY.replace("  driver:", spec).replace("2.2.0", "''") + "    maxUnavailable: 0\n"
    cluster = f"{projects.CLUSTER}  nfd: {{image: {{tag: v0.1}}}}\n"
    texts = {
        "policies/misspelt.yaml": projects.POLICY.replace("driver", "drivers").replace("1.4.1", "1.4"),
        "policies/several.yaml": f"{policy}---\n{cluster}",
        "policies/syntax.yaml": "a: b: c\n",
    }

    answer = in_process.kae(project.write(tmp_path, texts), "compile", "--no-cache", "-o", "json")

    found = [(item["file"][9:], item["code"]) for item in json.loads(answer.out)["diagnostics"]]
    assert found == [
        ("misspelt.yaml", "unknown-field"),
        ("misspelt.yaml", "wrong-type"),
        ("several.yaml", "default-with-selector"),
        ("several.yaml", "image-reference"),
        ("several.yaml", "unavailable-zero"),
        ("several.yaml", "nfd-release"),
        ("syntax.yaml", "yaml-syntax"),
    ]


def test_every_code_has_its_documents() -> None:
    assert set(CASES) == set(diagnostics.CODES) - OF_IMPORT


def test_every_code_of_an_import_has_its_test() -> None:
    tests = IMPORT_TESTS.read_text(encoding="utf-8")

    assert sorted(code for code in OF_IMPORT if code not in tests) == []
