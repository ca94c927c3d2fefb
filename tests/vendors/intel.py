"""Intel's operator as an oracle: the pods that its own controllers make, and the rules that it ships.

KAE_INTEL_PLUGINS names a checkout of github.com/intel/intel-device-plugins-for-kubernetes at the recipes' release. A
test of Go, written here, runs in a copy of it, in the package of each controller.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import tools

CHECKOUT = "KAE_INTEL_PLUGINS"
RELEASE = "0.36.0"
Object = Mapping[str, Any]

_PROGRAM = """package {package}

import (
	"encoding/json"
	"os"
	"testing"

	v1 "github.com/intel/intel-device-plugins-for-kubernetes/pkg/apis/deviceplugin/v1"
	"github.com/intel/intel-device-plugins-for-kubernetes/pkg/controllers"
)

func TestPodsOfKae(t *testing.T) {{
	text, err := os.ReadFile(os.Getenv("KAE_ASKED"))
	if err != nil {{
		t.Fatal(err)
	}}
	var asked []v1.{kind}DevicePlugin
	if err := json.Unmarshal(text, &asked); err != nil {{
		t.Fatal(err)
	}}
	made := []any{{}}
	one := &controller{{args: controllers.ControllerOptions{{Namespace: "kae-operator"}}}}
	for index := range asked {{
		made = append(made, one.NewDaemonSet(&asked[index]).Spec.Template.Spec)
	}}
	answer, err := json.Marshal(made)
	if err != nil {{
		t.Fatal(err)
	}}
	if err := os.WriteFile(os.Getenv("KAE_ANSWER"), answer, 0o600); err != nil {{
		t.Fatal(err)
	}}
}}
"""


def checkout(scratch: Path) -> Path:
    """Return a copy of the checkout, in which files may be written; skip the test without one."""
    found = tools.require_setting(CHECKOUT, f"a checkout of Intel's device plugins at v{RELEASE}")
    if not shutil.which("go"):
        tools.skip("go is missing: it builds the programs of that checkout.")
    return Path(shutil.copytree(found, scratch / "intel", ignore=shutil.ignore_patterns(".git")))


def pods(source: Path, kind: str, specs: Sequence[Object]) -> list[Object]:
    """Return the pods that Intel's operator makes for these specs of its `kind`DevicePlugin."""
    package = kind.lower()
    program = source / f"pkg/controllers/{package}/kae_test.go"
    program.write_text(_PROGRAM.format(package=package, kind=kind), "utf-8")
    asked, answer = source / f"{package}-asked.json", source / f"{package}-answer.json"
    asked.write_text(json.dumps([{"metadata": {"name": "one"}, "spec": spec} for spec in specs]), "utf-8")
    command = ("go", "test", "-count=1", "-run", "TestPodsOfKae", f"./pkg/controllers/{package}")
    environment = {**os.environ, "KAE_ASKED": str(asked), "KAE_ANSWER": str(answer)}
    done = subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[Object] = json.loads(answer.read_text("utf-8"))
    return found


def rules(source: Path) -> dict[str, Object]:
    """Return the rules of the NodeFeatureRule that Intel ships, by their names."""
    path = source / "deployments/nfd/overlays/node-feature-rules/node-feature-rules.yaml"
    return {rule["name"]: rule for rule in yaml.safe_load(path.read_text("utf-8"))["spec"]["rules"]}
