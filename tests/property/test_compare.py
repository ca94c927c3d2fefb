"""The comparison of two checkouts finds one that is equal, and each thing that another makes otherwise."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.fuzz.corpus import ROOT
from tests.property.compare import __main__ as compare

SPOILT = {
    "compiler/checks/fleet.py": (" matches no node.", " matches nobody."),
    "compiler/views/plan_data.py": ('"reasons": reasons', '"why": reasons'),
    "templates/driver/daemonset.yaml": ("hostPID: true", "hostPID: false"),
}


@pytest.mark.long
def test_what_a_checkout_makes_otherwise_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("benchmarks", "compiler", "inventory", "policies", "runtime", "schemas", "templates", "tests"):
        shutil.copytree(ROOT / name, tmp_path / "other" / name, ignore=shutil.ignore_patterns("__pycache__"))

    def compared() -> int:
        options = ["--only", "both", "--seed", "103", "--count", "1", "--keep", str(tmp_path / "keep")]
        monkeypatch.setattr(sys, "argv", ["compare", str(ROOT), str(tmp_path / "other"), *options])
        return compare.main()

    assert (compared(), list((tmp_path / "keep").iterdir())) == (0, [])
    for name, (text, other) in SPOILT.items():
        path = tmp_path / "other" / name
        path.write_text(path.read_text().replace(text, other))

    assert compared() == 1
    shown = capsys.readouterr().out
    assert "\nfinding policy-matches-nothing [].message " in shown
    assert "\nobject DaemonSet .spec.template.spec.hostPID " in shown
    assert "\nplan -o json .clusters[].nodes[].why new " in shown
