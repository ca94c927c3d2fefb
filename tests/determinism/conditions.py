"""The conditions of the full matrix."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.determinism import layouts, runs
from tests.determinism.runs import Condition

PLAIN = Condition(name="reference", environment={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"})
"""The reference that all other conditions are compared with."""

HASH_SEEDS = range(21)
LOCALES = ("C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.EUC-JP")
_ZONES = ("Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "UTC+12")
_FOLDERS = ("a", "with space/ünï códe", "deep/" * 20 + "project")


def matrix(pythons: Sequence[str], locales: Path) -> Iterator[Condition]:
    """Every condition of this machine; `locales` is a folder for the locales that have to be made."""
    for seed in HASH_SEEDS:
        yield Condition(name=f"PYTHONHASHSEED={seed}", environment={"PYTHONHASHSEED": str(seed)})
    for name in LOCALES:
        variables = {"LC_ALL": name, "LANG": name, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        if _is_there(name) or made_locale(locales, name):
            found = {} if _is_there(name) else {"LOCPATH": str(locales)}
            yield Condition(name=f"LC_ALL={name}", environment=variables | found)
    for zone in _ZONES:
        yield Condition(name=f"TZ={zone}", environment={"TZ": zone})
    for folder in _FOLDERS:
        yield Condition(name=f"in the folder {folder if len(folder) < 40 else f'{folder[:20]}…'}", folder=folder)
    for mask in (0o000, 0o027, 0o077):
        yield Condition(name=f"umask {mask:03o}", umask=mask)
    for name, layout in layouts.SAME_PLACES.items():
        yield Condition(name=name, layout=layout)
    for name, layout in layouts.OTHER_PLACES.items():
        yield Condition(name=name, layout=layout, same_places=False)
    if runs.can_seal():
        yield Condition(name="read-only project", read_only=True)
    yield Condition(name="without a cache", options=("--no-cache",))
    yield from _interpreters(pythons)


def _interpreters(pythons: Sequence[str]) -> Iterator[Condition]:
    yield Condition(name="python -O", python=(sys.executable, "-O"))
    yield Condition(name="python -OO", python=(sys.executable, "-OO"))
    yield Condition(name="python -X dev, warnings are errors", python=(sys.executable, "-X", "dev", "-W", "error"))
    yield Condition(name="PYTHONUTF8=1", environment={"PYTHONUTF8": "1"})
    for turn in ("first", "second"):
        yield Condition(name=f"compiled templates kept, {turn} run", environment={"PYTHONDONTWRITEBYTECODE": ""})
    for python in pythons:
        for seed in ("0", "7"):
            yield Condition(
                name=f"{version(python)}, seed {seed}", python=(python,), environment={"PYTHONHASHSEED": seed}
            )


def version(python: str) -> str:
    """Return the name and version of an interpreter."""
    done = subprocess.run((python, "-VV"), capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.partition("(")[0].strip()


def _is_there(name: str) -> bool:
    """Return whether the C library knows a locale."""
    code = f"import locale; locale.setlocale(locale.LC_ALL, {name!r})"
    return subprocess.run((sys.executable, "-c", code), capture_output=True, check=False, timeout=60).returncode == 0


def made_locale(folder: Path, name: str) -> bool:
    """Make a locale in a folder from its source; return whether that worked."""
    tool = shutil.which("localedef")
    if tool is None:
        return False
    territory, _, encoding = name.partition(".")
    folder.mkdir(exist_ok=True)
    command = (tool, "--no-archive", "-i", territory, "-f", encoding or "UTF-8", str(folder / name))
    return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0
