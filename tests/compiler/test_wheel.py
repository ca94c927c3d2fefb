"""The wheel is what `pip install kae-compiler` brings: the compiler, its templates and schemas, and the configs."""

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import revisions
from tests.cli import fleet

pytestmark = pytest.mark.long

_READ = ("LICENSE", "README.md", "ci", "compiler", "pyproject.toml", "runtime", "schemas", "templates")
"""What the build reads."""

VERSION = "7.8.9"


@pytest.fixture(scope="module")
def checkout(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, as a build writes the version into it."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "_version.py", "_templates.py")
    for name in _READ:
        path = repository_root / name
        (shutil.copytree(path, folder / name, ignore=ignored) if path.is_dir() else shutil.copy(path, folder))
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."]
    environment = os.environ | {"KAE_VERSION": VERSION}
    done = subprocess.run(build, cwd=checkout, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


def version_of(folder: Path, **stated: str) -> str:
    """What ci/version.sh of a checkout prints; it says what to do where there is no version."""
    environment = {name: value for name, value in os.environ.items() if name != "KAE_VERSION"} | stated
    done = subprocess.run(
        ("sh", "ci/version.sh"), cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    version = done.stdout.strip()
    assert ("set KAE_VERSION" in done.stderr) == bool(done.stderr) == (version == "0+unknown")
    return version


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


@pytest.mark.long
def test_the_wheel_holds_the_compiler_templates_schemas_and_configs_alone(wheel: Path, checkout: Path) -> None:
    expected = {
        f"{place}/{name}"
        for folder, place in (
            ("compiler", "compiler"),
            ("templates", "compiler/templates"),
            ("schemas", "compiler/schemas"),
        )
        for name in sources(checkout / folder)
    }
    configs = (
        *("__init__", "device_plugin_config", "dra", "driver_config", "driver_labels", "driver_work", "errors"),
        "shapes",
    )
    expected |= {f"runtime/{name}.py" for name in (*configs, "watcher_config")}

    assert {name for name in names(wheel) if ".dist-info/" not in name} == expected
    assert any(name.startswith("compiler/templates/") for name in expected)
    assert any(name.startswith("compiler/schemas/") for name in expected)


def test_the_wheel_is_named_for_the_distribution_and_the_version_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        module = archive.read("compiler/_version.py").decode()

    assert wheel.name == f"kae_compiler-{VERSION}-py3-none-any.whl"
    assert module == f'__version__ = "{VERSION}"\n'


def test_the_wheel_holds_its_licence(wheel: Path, repository_root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        licence = archive.read(f"kae_compiler-{VERSION}.dist-info/licenses/LICENSE")

    assert licence == (repository_root / "LICENSE").read_bytes()


@pytest.mark.long
def test_a_repository_is_made_by_the_wheel_that_pip_has_installed_and_compiled(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    installed, made = tmp_path / "installed", tmp_path / "fleet"
    subprocess.run([*pip, "--target", str(installed), str(wheel)], capture_output=True, timeout=60, check=True)

    done = subprocess.run(
        [sys.executable, "-m", "compiler", "init", str(made), "--cluster", "east"],
        env=os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert list(installed.rglob("init/ci/__pycache__/*.pyc"))  # pip compiles what ends in .py.
    assert (done.returncode, done.stderr) == (0, "")
    assert f"version: {VERSION}\n" in (made / "policies/policy.yaml").read_text()
    assert not list(made.rglob("__pycache__"))
    assert not list(made.rglob("*.pyc"))


_OF_WHEEL = """
import sys
from compiler import cli
from compiler.project import package_data
assert cli.main(["-C", sys.argv[1], "compile"]) == 0
print(*(part.name for part in package_data.parts()), "jinja2" in sys.modules)
"""


@pytest.mark.long
def test_a_wheel_compiles_by_the_code_of_its_templates_and_is_known_by_its_record(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(tmp_path / "installed"), str(wheel)], timeout=60, check=True)
    fleet.small(tmp_path / "fleet")

    done = subprocess.run(
        [sys.executable, "-c", _OF_WHEEL, str(tmp_path / "fleet")],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "RECORD False"


@pytest.mark.long
def test_two_builds_of_a_checkout_give_the_same_wheel(wheel: Path, checkout: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkout, tmp_path / "another")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "built"), "."]

    subprocess.run(
        build, cwd=copy, env=os.environ | {"KAE_VERSION": VERSION}, capture_output=True, timeout=60, check=True
    )

    (again,) = (tmp_path / "built").iterdir()
    assert again.read_bytes() == wheel.read_bytes()


def test_the_version_is_that_of_the_tag_in_git(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    shutil.copytree(checkout / "ci", folder / "ci")
    versions = [version_of(folder)]
    revisions.commit(folder)
    versions.append(version_of(folder))
    revisions.git(folder, "tag", "unrelated")
    versions.append(version_of(folder))
    revisions.git(folder, "tag", "v1.2.0")
    versions.append(version_of(folder))
    (folder / "ci/wheel.py").write_text("")
    versions.append(version_of(folder))
    revisions.commit(folder)
    versions.append(version_of(folder))
    (folder / "ci/wheel.py").write_text("pass")
    versions.append(version_of(folder))

    first, last = (revisions.git(folder, "rev-parse", "--short=12", name).strip() for name in ("v1.2.0", "HEAD"))
    assert versions == [
        *("0+unknown", f"0+g{first}", f"0+g{first}"),
        *("1.2.0", "1.2.0+dirty", f"1.2.0+1.g{last}", f"1.2.0+1.g{last}.dirty"),
    ]


def test_an_archive_of_a_tag_has_the_version_that_it_is_told(checkout: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(checkout / "ci", tmp_path / "clone/ci").parent
    revisions.commit(folder)
    revisions.git(folder, "tag", "v1.2.0")
    revisions.git(folder, "archive", "--output", str(tmp_path / "kae.tar"), "v1.2.0")
    shutil.unpack_archive(tmp_path / "kae.tar", tmp_path / "kae", filter="data")

    assert version_of(tmp_path / "kae") == "0+unknown"
    assert version_of(tmp_path / "kae", KAE_VERSION="1.2.0") == "1.2.0"


def test_sources_inside_of_another_repository_do_not_take_its_version(checkout: Path, tmp_path: Path) -> None:
    shutil.copytree(checkout / "ci", tmp_path / "vendored/kae/ci")
    revisions.commit(tmp_path)
    revisions.git(tmp_path, "tag", "v5.0.0")

    assert version_of(tmp_path / "vendored/kae") == "0+unknown"


def test_the_wheel_brings_the_command_kae_and_no_other(wheel: Path) -> None:
    scripts = configparser.ConfigParser()
    (entry_points,) = (name for name in names(wheel) if name.endswith(".dist-info/entry_points.txt"))

    with zipfile.ZipFile(wheel) as archive:
        scripts.read_string(archive.read(entry_points).decode())

    assert {section: dict(scripts[section]) for section in scripts.sections()} == {
        "console_scripts": {"kae": "compiler.__main__:main"}
    }
