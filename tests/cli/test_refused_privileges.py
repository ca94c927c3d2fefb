"""A cluster that refuses a privilege gets no output with a recipe that needs it."""

from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli.answers import refused, told

CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: NAME
spec:
  kubernetesVersion: "1.31"
  recipes:
    refuse: [hostNetwork, "REFUSED"]
"""
POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: lab
spec:
  recipe: simple-kmod
  images:
    driver-installer: {version: 2.3.0}
    modules: {version: "1.0-${KERNEL_FULL_VERSION}"}
  kernelMappings:
    - {name: one, literal: 5.10.0-60}
"""
REFUSED = """\
policies/west.yaml:8:27: error[privilege-refused]: Cluster 'west' refuses a privilege of 'simple-kmod-driver': \
hostPath: / rw.
  8 |     refuse: [hostNetwork, "hostPath: * rw"]
    |                           ^
  hint: Leave the cluster out of spec.clusters of the DevicePolicy, or no longer refuse the privilege.
1 error
"""


@pytest.fixture
def folder(tmp_path: Path, repository_root: Path) -> Path:
    """A project with a DevicePolicy, a cluster that takes it and one that refuses it."""
    recipe = (repository_root / "templates/recipes/simple-kmod/recipe.yaml").read_text("utf-8")
    files = {"policies/lab.yaml": POLICY, "recipes/simple-kmod/recipe.yaml": recipe}
    for name, refusal in (("east", "hostPath: /etc*"), ("west", "hostPath: * rw")):
        files[f"policies/{name}.yaml"] = CLUSTER.replace("NAME", name).replace("REFUSED", refusal)
    return project.write(tmp_path, files)


@pytest.mark.parametrize("flags", [(), ("--check",), ("--cluster", "west")])
def test_a_refused_privilege_is_told_at_the_refusal_and_nothing_written(folder: Path, flags: tuple[str, ...]) -> None:
    answer = in_process.kae(folder, "compile", *flags)

    assert (answer.code, answer.err.replace("1 error; nothing written", "1 error")) == (1, REFUSED)
    assert not (folder / "output").exists()


def test_a_cluster_that_refuses_something_else_is_compiled(folder: Path) -> None:
    told(folder, "compile", "--cluster", "east")

    assert "simple-kmod-driver: hostPath: / rw\n" in (folder / "output/east/privileges.txt").read_text("utf-8")


def test_a_refusal_that_is_not_written_as_a_line_of_privileges_is_a_mistake(folder: Path) -> None:
    project.write(folder, {"policies/west.yaml": CLUSTER.replace("NAME", "west").replace("REFUSED", "hostNetowrk")})

    said = refused(1, folder, "compile")

    assert "policies/west.yaml:8:27: error[invalid-value]: 'hostNetowrk' is not a line of privileges.txt" in said
