"""Both sides of a change as they are brought to a control plane: the objects, and the nodes with their labels."""

from pathlib import Path

import pytest

from compiler.project import comparison, package_data
from compiler.rehearsal import stage
from compiler.rendering import templates
from compiler.settings import Settings
from tests import project, revisions
from tests.cli import fleet

WAVES = """\
    rollout:
      waves:
        - {name: canary, nodes: [kp920-01], version: 2.3.0}
"""


def sides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[stage.Side, stage.Side]:
    """Return cluster east as the last commit and the working tree have it."""
    monkeypatch.chdir(folder)
    render = templates.renderer(package_data.templates(), package_data.code())
    _, ((_, was, now),) = comparison.with_sides("HEAD", None, Settings(), ["east"])
    return stage.both(was, now, render)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = fleet.small(tmp_path / "project")
    (made / "inventory/east.json").write_text(fleet.listed())
    revisions.commit(made)
    return made


def test_nodes_have_what_the_inventory_says_and_the_label_of_their_pool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = fleet.POLICY.replace("    version: 2.2.0\n", f"    version: 2.2.0\n{WAVES}")
    project.write(folder, {"policies/tls.yaml": policy})
    before, after = sides(folder, monkeypatch)

    label = "openfuyao.com/kae.pool.tls"
    assert {machine.labels.get(label) for machine in before.machines.values()} == {None}
    assert after.machines["kp920-01"].labels[label] == "canary"
    assert after.machines["kp920-02"].labels[label] == "rest"
    assert label not in after.machines["new-01"].labels
    tainted = after.machines["kp920-04"]
    assert [(taint.key, taint.effect) for taint in tainted.taints] == [("dedicated", "NoSchedule")]
    assert after.machines["kp920-01"].resources == {"openfuyao.com/kae.hpre": 16}


def test_a_label_that_no_rule_gives_any_more_goes_with_its_rule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    off = f"{fleet.EAST}spec: {{nfd: {{enabled: false}}, gitops: {{engine: argocd}}}}\n"
    project.write(folder, {"policies/east.yaml": off})
    before, after = sides(folder, monkeypatch)

    present = "openfuyao.com/kae.hpre.present"
    assert before.machines["kp920-01"].labels[present] == "true"
    assert present not in after.machines["kp920-01"].labels


def test_what_no_engine_deletes_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(
        folder, {"policies/east.yaml": f"{fleet.EAST}spec: {{gitops: {{engine: argocd, argocd: {{prune: false}}}}}}\n"}
    )
    revisions.commit(folder)
    (folder / "policies/tls.yaml").unlink()
    before, after = sides(folder, monkeypatch)

    (driver,) = (one for one in before.objects if one.kind == "DaemonSet" and one.name == "kae-driver-tls")
    assert driver in after.objects
