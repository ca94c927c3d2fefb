"""KAE's recipe is data: copies of the checkout with another name or one more kind compile, install and serve."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import builders, project

_COPIED = ("compiler", "device_plugin", "installer", "runtime", "schemas", "templates", "tests", "watcher")
_CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
"""
_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: web
spec:
  operator: {operator}
  driver:
    version: 2.2.0
    source: {{prebuilt: {{}}}}
  devicePlugin:
    version: 1.4.1
"""
_BASE = ("uacce", "hisi_qm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, whose path is short, as sockets want it."""
    made = Path(tempfile.mkdtemp(prefix="kae-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


class Checkout:
    """A copy of the checkout, and a project beside it."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Copies what the programs and their fake host need."""
        self.folder, self.fleet, self._copy = folder, folder / "fleet", folder / "copy"
        ignored = shutil.ignore_patterns("__pycache__", "golden", "failures", "cluster", "images", "vm")
        for name in _COPIED:
            shutil.copytree(root / name, self._copy / name, ignore=ignored)

    def edit(self, module: str, old: str, new: str) -> None:
        """Replace a text that stands once in a module of the compiler."""
        file = self._copy / "compiler" / module
        text = file.read_text()
        assert text.count(old) == 1
        file.write_text(text.replace(old, new))

    def run(self, *command: str) -> str:
        """Return what a module of the copy prints."""
        return self._python(self.fleet, *command)

    def schemas(self) -> None:
        """Write the schemas of documents anew."""
        self._python(self._copy, "compiler", "schema", "--write", "schemas")

    def schema(self) -> Mapping[str, Any]:
        """Return the definitions in the schema of KAEPolicies."""
        definitions: Mapping[str, Any] = json.loads((self._copy / "schemas/kaepolicy.json").read_text())["$defs"]
        return definitions

    def compiled(self, stem: str, kinds: tuple[str, ...], operator: str) -> dict[str, str]:
        """Compile a policy for a node with labels of these kinds; return the texts of the output."""
        present = {f"{stem}.present": "true", **{f"{stem}.{kind}.present": "true" for kind in kinds}}
        present |= {f"{stem}.{kind}.pf": "2" for kind in kinds}
        nodes = {"apiVersion": "v1", "kind": "List", "items": [builders.kubernetes_node("kp920-01", present)]}
        files = {"cluster.yaml": _CLUSTER, "web.yaml": _POLICY.format(operator=operator)}
        project.write(self.fleet, {f"policies/{name}": text for name, text in files.items()})
        project.write(self.fleet, {"inventory/east.json": json.dumps(nodes)})
        self.run("compiler", "compile")
        return {name: text.decode() for name, text in project.tree(self.fleet / "output/east").items()}

    def node(self) -> dict[str, Any]:
        """Return what a fake host gets of the output."""
        made = self.folder / "node"
        made.mkdir()
        said: dict[str, Any] = json.loads(self.run("tests.compiler.fake_node", "output/east", str(made)))
        return said

    def _python(self, folder: Path, *command: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(self._copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-P", "-m", *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def checkout(repository_root: Path, folder: Path) -> Checkout:
    return Checkout(repository_root, folder)


def plan(checkout: Checkout) -> dict[str, Any]:
    """Return what the plan says of the only node."""
    (cluster,) = json.loads(checkout.run("compiler", "plan", "-o", "json"))["clusters"]
    (node,) = cluster["nodes"]
    found: dict[str, Any] = node
    return found


def fields(definitions: Mapping[str, Any]) -> set[str]:
    """Return the fields in definitions of a schema."""
    return {f"{name}.{field}" for name, own in definitions.items() for field in own.get("properties", ())}


@pytest.mark.long
def test_kae_under_another_name_compiles_installs_and_serves(checkout: Checkout) -> None:
    checkout.edit("names.py", 'RECIPE = "kae"', 'RECIPE = "tls"')
    checkout.schemas()

    tree = checkout.compiled("openfuyao.com/tls", ("hpre",), "{}")

    assert [name for name, text in tree.items() if "openfuyao.com/kae." in text] == []
    assert {"driver/daemonset-tls-driver-web.yaml", "node-feature-rule/nodefeaturerule-tls.yaml"} <= {*tree}
    assert '"recipe"' not in tree["index.json"]
    assert plan(checkout)["resources"] == {"openfuyao.com/tls.hpre": 2}
    assert checkout.node() == {
        "state": "Ready",
        "modules": [*_BASE, "hisi_hpre"],
        "given": {"openfuyao.com/tls.hpre": ["/dev/hisi_hpre-30976"]},
    }


@pytest.mark.long
def test_one_entry_adds_a_kind_to_the_language_the_output_the_hosts_and_the_pods(checkout: Checkout) -> None:
    before = fields(checkout.schema())
    entry = '    Kind(name="rde", use="RAID", pf="a25a", vf="a25b", module="hisi_rde"),\n'
    checkout.edit("kae.py", ")\n\n_COMMON", f"{entry})\n\n_COMMON")

    checkout.schemas()
    tree = checkout.compiled("openfuyao.com/kae", ("hpre", "rde"), "{enabledRDE: true}")

    made = {"Operator.enabledRDE", "Modes.rde", "Sharing.rde", "Sriov.rde"}
    assert fields(checkout.schema()) - before == made
    assert "openfuyao.com/kae.rde.present" in tree["node-feature-rule/nodefeaturerule-kae.yaml"]
    assert plan(checkout)["resources"] == {"openfuyao.com/kae.hpre": 2, "openfuyao.com/kae.rde": 2}
    assert checkout.node() == {
        "state": "Ready",
        "modules": [*_BASE, "hisi_hpre", "hisi_rde"],
        "given": {
            "openfuyao.com/kae.hpre": ["/dev/hisi_hpre-30976"],
            "openfuyao.com/kae.rde": ["/dev/hisi_rde-24576"],
        },
    }
