"""The example of docs/rollouts.md, its changes, and the answers of `kae diff` on them: 24 nodes, two waves."""

import json
from pathlib import Path
from typing import Any

from tests import in_process, revisions

WAVES = """\
      waves:
        - name: canary
          percent: 5
          version: 2.2.0
        - name: half
          percent: 50
          version: 2.2.0
"""
EXAMPLE = Path(__file__).parents[2] / "docs/examples/rollout"


def edit(folder: Path, *replacements: tuple[str, str], file: str = "policies/tls.yaml") -> None:
    """Replace texts in a document, each of which it holds."""
    path = folder / file
    text = path.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


def label_assets(folder: Path) -> None:
    """Give each node a label that decides nothing."""
    inventory = folder / "inventory/east.json"
    known = json.loads(inventory.read_text())
    for node in known["spec"]["nodes"]:
        node["labels"] = {**node.get("labels", {}), "example.com/asset": node["name"]}
    inventory.write_text(json.dumps(known))


def lose_a_node(folder: Path) -> None:
    """Take a node out of the inventory."""
    inventory = folder / "inventory/east.json"
    known = json.loads(inventory.read_text())
    del known["spec"]["nodes"][1]
    inventory.write_text(json.dumps(known))


def shown(folder: Path, *arguments: str) -> str:
    """Return the answer and its findings without the commit's id."""
    answer = in_process.kae(folder, "diff", *arguments)
    assert answer.code == 0
    return anonymous(folder, f"{answer.out}{answer.err}")


def anonymous(folder: Path, text: str) -> str:
    """Return a text without the commit's id."""
    return text.replace(revisions.git(folder, "rev-parse", "--short=12", "HEAD").strip(), "COMMIT")


def data(folder: Path, *arguments: str) -> Any:
    """Return the answer for programs."""
    answer = in_process.kae(folder, "diff", "-o", "json", *arguments)
    return json.loads(answer.out)


EDITS: dict[str, tuple[str, str]] = {
    "canary": ("version: 2.2.0\n        - name: half", "version: 2.3.0\n        - name: half"),
    "freeze": (
        "  devicePlugin:",
        "      frozen: [{name: sick, nodes: [kp920-rack1-03], version: 2.1.0}]\n  devicePlugin:",
    ),
    "no waves": (WAVES, ""),
    "rename": ("name: tls", "name: web"),
    "drain": ("  driver:\n", "  driver:\n    drain: {timeoutSeconds: 60}\n"),
    "module parameters": (
        "  driver:\n",
        "  driver:\n    drain: {enabled: false}\n    moduleParameters: {hisi_hpre: {pf_q_num: 128}}\n",
    ),
    "virtual functions": ("  driver:\n", "  driver:\n    sriov: {hpre: 2}\n"),
    "absent": ("  driver:\n", "  driver:\n    state: Absent\n"),
    "source": ("prebuilt: {}", "inTree: {}"),
    "mirror": ("  driver:\n", "  driver:\n    repository: registry.example.com/kae\n"),
    "image": ("  driver:\n", "  driver:\n    image: kae-driver-of-ours\n"),
    "sharing": ("  devicePlugin:", "  devicePlugin:\n    sharing: {hpre: 4}"),
    "plugin version": ("version: 1.4.1", "version: 1.5.0"),
    "pre-installed": ("  driver:\n", "  driver:\n    enabled: false\n"),
    "another selector": ("pool: tls", "pool: web"),
}


def change(folder: Path, name: str) -> None:
    """Make one of the edits in the policy."""
    edit(folder, EDITS[name])
