"""`kae preflight --kernels`: the images of a list of kernels to come, and those to build (docs/foresight.md)."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import refused

OLD, NEW, NEXT, UNKNOWN = "5.10.0-216.oe2203sp4", "6.6.0-28.oe2403", "6.6.0-72.oe2403", "4.19.90-2112.el7"
SPEC = {
    "driver": {
        "version": "2.2.0",
        "kernelMappings": [
            {"name": "oe2203", "regexp": "oe2203"},
            {
                "name": "oe2403",
                "regexp": "oe2403",
                "version": "2.2.0-${KERNEL_FULL_VERSION}",
                "source": {"prebuilt": {}},
            },
        ],
        "rollout": {"waves": [{"name": "canary", "nodes": ["node-0"], "version": "2.3.0-${KERNEL_FULL_VERSION}"}]},
    },
    "devicePlugin": {"version": "1.4.1"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two clusters of one policy, of which only east has a node, with the kernel NEW and in no wave."""
    node = builders.kubernetes_node("node-1", fleet.HPRE)
    node["status"]["nodeInfo"]["kernelVersion"] = NEW
    texts = {
        "policies/tls.json": json.dumps(builders.raw("KAEPolicy", "tls", SPEC)),
        "policies/clusters.yaml": f"{fleet.EAST}---\n{fleet.CLUSTER}",
        "inventory/east.json": fleet.listed((node,)),
        "kernels.txt": f"# next week\n{OLD}\n\n{NEW}  # there already\n{NEXT}\n{NEXT}\n",
    }
    return project.write(tmp_path, texts)


def answered(folder: Path, *options: str) -> Any:
    answer = in_process.kae(folder, "preflight", "--kernels", "kernels.txt", "-o", "json", *options)
    return json.loads(answer.out)


def test_each_kernel_policy_and_group_has_its_image_or_none(folder: Path) -> None:
    said = answered(folder, "--cluster", "east")
    rows = [
        (row["kernel"], row["pool"], (row["image"] or "").rpartition(":")[2], row["missing"]) for row in said["images"]
    ]

    assert said["kernels"] == [OLD, NEW, NEXT]
    assert {image for kernel, pool, image, _ in rows if kernel == OLD and pool.startswith("rest")} == {"2.2.0"}
    newer = {(kernel, image): missing for kernel, _, image, missing in rows if kernel != OLD}
    assert newer[NEW, f"2.2.0-{NEW}"] is False
    assert newer[NEXT, f"2.2.0-{NEXT}"] is True


def test_the_matrix_has_each_missing_image_once_with_all_that_take_it(folder: Path) -> None:
    matrix = answered(folder)["matrix"]

    assert [*matrix] == ["include"]
    images = {one["image"].rpartition(":")[2]: (one["kernels"], one["policies"]) for one in matrix["include"]}
    assert images[f"2.2.0-{NEXT}"] == (NEXT, ["east/tls", "west/tls"])
    assert len(images) == len(matrix["include"])


def test_an_image_that_another_cluster_runs_with_the_kernel_is_not_built_again(folder: Path) -> None:
    said = answered(folder)
    (west,) = [
        row for row in said["images"] if row["cluster"] == "west" and (row["image"] or "").endswith(f"2.2.0-{NEW}")
    ]

    assert (west["missing"], west["reason"]) == (False, "a node of another cluster has it with this kernel")
    assert not any(one["image"].endswith(f"2.2.0-{NEW}") for one in said["matrix"]["include"])


def test_a_digest_is_not_built(folder: Path) -> None:
    digest = f"sha256:{'1' * 64}"
    own = folder / "policies/tls.json"
    own.write_text(own.read_text().replace("2.2.0-${KERNEL_FULL_VERSION}", digest))
    said = answered(folder, "--cluster", "west")

    assert [row["missing"] for row in said["images"] if digest in (row["image"] or "")] != []
    assert not any(digest in one["image"] for one in said["matrix"]["include"])


def test_a_kernel_that_no_policy_serves_is_told_and_fails(folder: Path) -> None:
    (folder / "kernels.txt").write_text(f"{OLD}\n{UNKNOWN}\n")
    answer = in_process.kae(folder, "preflight", "--kernels", "kernels.txt")

    assert answer.code == 1
    assert f"No policy would serve a node with the kernel '{UNKNOWN}'." in answer.out
    assert "no mapping covers it" in answer.out


def test_kernels_come_from_standard_input_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{NEXT}\n".encode())))
    answer = in_process.kae(folder, "preflight", "--kernels", "-")

    assert answer.code == 0
    assert "to build" in answer.out


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "kernels.txt has no kernel."), (f"{OLD}\nnot a kernel\n", "kernels.txt:2: 'not a kernel' is not a kernel's")],
)
def test_a_list_without_kernels_or_with_other_words_is_refused(text: str, words: str, folder: Path) -> None:
    (folder / "kernels.txt").write_text(text)

    assert words in refused(1, folder, "preflight", "--kernels", "kernels.txt")


def test_a_list_that_is_not_there_is_an_error_of_the_disk(folder: Path) -> None:
    assert "cannot be read" in refused(3, folder, "preflight", "--kernels", "absent.txt")


def test_a_list_names_no_system(folder: Path) -> None:
    assert "--os is about --kernel" in refused(2, folder, "preflight", "--kernels", "kernels.txt", "--os", "Debian 13")
