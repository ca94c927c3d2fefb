"""The wheel is what `pip install kae-compiler` brings: the compiler with its templates and schemas, alone."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import compiler


@pytest.fixture(scope="module")
def wheel(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."]
    done = subprocess.run(build, cwd=repository_root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sources(folder: Path) -> set[str]:
    """Files below a folder of the repository, without what Python leaves behind."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_compiler_with_its_templates_and_schemas_and_nothing_else(
    wheel: Path, repository_root: Path
) -> None:
    expected = {
        f"{place}/{name}"
        for folder, place in (
            ("compiler", "compiler"),
            ("templates", "compiler/templates"),
            ("schemas", "compiler/schemas"),
        )
        for name in sources(repository_root / folder)
    }

    assert {name for name in names(wheel) if ".dist-info/" not in name} == expected
    assert any(name.startswith("compiler/templates/") for name in expected)
    assert any(name.startswith("compiler/schemas/") for name in expected)


def test_the_wheel_is_named_for_the_distribution_and_the_version_of_the_compiler(wheel: Path) -> None:
    expected = f"kae_compiler-{compiler.__version__}-py3-none-any.whl"

    assert wheel.name == expected


def test_the_wheel_brings_the_command_kae_and_no_other(wheel: Path) -> None:
    scripts = configparser.ConfigParser()
    (entry_points,) = (name for name in names(wheel) if name.endswith(".dist-info/entry_points.txt"))

    with zipfile.ZipFile(wheel) as archive:
        scripts.read_string(archive.read(entry_points).decode())

    assert {section: dict(scripts[section]) for section in scripts.sections()} == {
        "console_scripts": {"kae": "compiler.__main__:main"}
    }
