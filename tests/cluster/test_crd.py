"""`kae schema --crd` before the real API server: it takes good documents, and refuses bad ones."""

import copy
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler import diagnostics
from compiler.checks import cluster, policy
from compiler.formats import decode, documents
from compiler.read import fleet as reader
from tests import builders, in_process
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.failures import cases as failures
from tests.fuzz import corpus, structure

PLURALS = {
    "KAEPolicy": "kaepolicies",
    "KAECluster": "kaeclusters",
    "DevicePolicy": "devicepolicies",
    "Recipe": "recipes",
}
YAML, JSON = "application/yaml", "application/json"
MUTANTS = 400

TAKEN: Mapping[str, tuple[str, ...]] = {
    "Its other half is another document, which the API server does not look at.": (
        *("default-too-complex/rest.yaml", "duplicate-cluster/east.yaml", "duplicate-policy/tls.yaml"),
        *("drain-unstated/tls.yaml", "policy-overlap/zip.yaml", "two-defaults/tls.yaml"),
        "duplicate-object/lane.yaml",
        *("inject-conflict/lab.yaml", "policy-overlap/lab.yaml", "policy-overlap/shared.yaml"),
        *("cluster-unknown/tls.yaml", "ignored-label/east.yaml", "pool-rules-too-large/tls.yaml"),
        "object-too-large/tls.yaml",
        "dra-unsupported/tls.yaml",
        *("kubernetes-version-unstated/cluster.yaml", "shared-target/edge.yaml", "shared-target/west.yaml"),
    ),
    "It is about its recipe, which is another document.": (
        *("module-required/lab.yaml", "override-unused/lab.yaml", "parameter-claimed/lab.yaml"),
        *("driver-differs/lab.yaml", "values-exclusive/lab.yaml"),
        *("unknown-recipe/lab.yaml", "unknown-recipe/zero.yaml", "kernel-placeholder/desk.yaml"),
        "device-plugin-image/lab.yaml",
    ),
    "It is about the folder of a file, which the API server does not know.": ("recipe-file/extra.yaml",),
    "It goes through the keys of a map, of which there may be too many for the cost of a rule.": (
        *("module-parameter/kernel.yaml", "module-parameter/tls.yaml"),
        *("resource-amount/pages.yaml", "resource-amount/tls.yaml", "device-plugin-settings/mounts.yaml"),
    ),
    "It goes through a list of names, of which there may be too many for the cost of a rule.": (
        *("driver-version/tls.yaml", "kernel-placeholder/zip.yaml", "name-too-long/tls.yaml"),
        *("proxy-url/east.yaml", "proxy-url/tls.yaml"),
    ),
    "It is about a source, which stands at many places of a policy.": ("credentials-without-repositories/tls.yaml",),
    "It is about what an earlier compile wrote, which the API server does not know.": (
        *("moves-namespace/east.yaml", "moves-with-cleanup/east.yaml", "removes-guard/east.yaml"),
        *("match-narrowed/desk.yaml", "removes-programs/lab.yaml", "thaws-nodes/tls.yaml"),
    ),
    "A contradiction between terms needs a proof, not a comparison of fields.": ("selector-never-matches/tls.yaml",),
    "It is about patterns, of which there may be too many for the cost of a rule that would try them.": (
        *("kernel-pattern/tls.yaml", "mapping-never-wins/listed.yaml", "mapping-never-wins/tls.yaml"),
    ),
    "It is about what is in an image, of which the API server knows the name alone.": (
        *("image-driver-kernel/tls.yaml", "image-driver-source/tls.yaml", "image-driver-version/tls.yaml"),
    ),
    "The reference is put together from three fields and judged as a whole.": ("image-reference/vm.yaml",),
    "It is about how the file is written; the API server reads the same object out of it.": (
        *("bad-encoding/marked.yaml", "bad-encoding/wide.yaml", "yaml-tag/tls.yaml"),
    ),
}
"""The bad documents that it takes, by the reason."""


def bad_documents() -> Iterator[str]:
    for code in failures.CASES:
        if diagnostics.CODES[code].severity == "error" and code != "not-a-file":
            text = (failures.HERE / code / "expected.txt").read_text(encoding="utf-8")
            errors = re.findall(r"^policies/(\S+?):[0-9:]+ error\[(.*?)\]", text, re.MULTILINE)
            yield from sorted({f"{code}/{file}" for file, earned in errors if earned == code})


def good_documents() -> Iterator[Path]:
    yield from sorted((manifests.ROOT / "policies").rglob("*.yaml"))
    yield from sorted(manifests.ROOT.glob("tests/golden/*/policies/**/*.yaml"))
    yield from sorted(manifests.ROOT.glob("templates/recipes/*/*.yaml"))


@pytest.fixture(scope="module")
def definitions_of_ours(objects: kinds.Objects, tmp_path_factory: pytest.TempPathFactory) -> None:
    answer = in_process.kae(tmp_path_factory.mktemp("empty"), "schema", "--crd")
    texts = [part for part in re.split(r"^---\n", answer.out, flags=re.MULTILINE) if part]
    assert len(texts) == len(PLURALS)
    for text in texts:
        definition = yaml.safe_load(text)
        first = objects.apply(definition, text, "kae")
        objects.wait_until_established(definition)
        assert list(manifests.differences(definition, objects.get(definition))) == []
        assert objects.apply(definition, text, "kae")["metadata"]["generation"] == first["metadata"]["generation"]


def made(plane: control_planes.ControlPlane, content: bytes, kind: str, media: str = YAML) -> Any:
    """Return the API server's answer to a document that is to be made, with unknown fields refused; nothing is kept."""
    path = f"/apis/device.openfuyao.com/v1alpha1/{PLURALS[kind]}?dryRun=All&fieldValidation=Strict"
    return plane.api.send("POST", path, content, media)


def parts(content: bytes) -> Iterator[tuple[bytes, str]]:
    for part in re.split(rb"(?m)^---\n", content):
        named = re.search(rb"(?m)^kind: *(\w+)$", part)
        kind = named[1].decode() if named else ""
        yield part, kind if kind in PLURALS else "KAEPolicy"


@pytest.mark.parametrize("path", list(good_documents()), ids=lambda path: str(path.relative_to(manifests.ROOT)))
def test_a_good_document_is_taken_and_nothing_is_added_to_it(
    path: Path, control_plane: control_planes.ControlPlane, definitions_of_ours: None
) -> None:
    for part, kind in parts(path.read_bytes()):
        answer = made(control_plane, part, kind)

        assert (answer.status, answer.warnings) == (201, ()), answer.body
        assert answer.body.get("spec") == yaml.safe_load(part).get("spec")


@pytest.mark.parametrize("name", list(bad_documents()))
def test_a_bad_document_is_refused_or_there_is_a_reason(
    name: str, control_plane: control_planes.ControlPlane, definitions_of_ours: None, tmp_path: Path
) -> None:
    code, _, file = name.partition("/")
    content = (failures.prepared(code, tmp_path / "project") / "policies" / file).read_bytes()

    statuses = {made(control_plane, part, kind).status for part, kind in parts(content)}

    reasons = [reason for reason, names in TAKEN.items() if name in names]
    assert statuses <= {201, 400, 422}
    assert (statuses == {201}) == bool(reasons), statuses


def test_a_reason_is_given_once_and_for_a_document_that_is_there() -> None:
    given = [name for names in TAKEN.values() for name in names]

    assert sorted(given) == sorted(set(given) & set(bad_documents()))


def test_a_definition_refuses_what_the_schema_refuses_and_nothing_that_compiles(
    control_plane: control_planes.ControlPlane, definitions_of_ours: None
) -> None:
    # What a DevicePolicy may say is its recipe's matter.
    mutated = ("KAEPolicy", "KAECluster")
    good = [data for seed in corpus.seeds() for data in seed.data() if data.get("kind") in mutated]
    decisions = {True: 0, False: 0}

    for number in range(MUTANTS):
        content = _mutant(number, good)
        # Text that is no document at all is not a matter of schemas.
        for document in decode.decode("policies/mutant.json", content)[0]:
            kind, findings = builders.judge().judge(document)
            messages = [finding.message for finding in findings]
            if kind in mutated and not _has_blind_spot(document.data, messages):
                answer = made(control_plane, content, kind, JSON)
                is_taken = answer.status == 201
                assert not (is_taken and messages), (number, messages)
                assert is_taken or messages or _faults(document, kind), (number, answer.body)
                decisions[is_taken] += 1

    assert min(decisions.values()) > MUTANTS / 5


def _faults(document: documents.Document, kind: str) -> bool:
    if kind == "KAEPolicy":
        return diagnostics.has_errors(policy.findings(reader.policy_of(document, builders.judge().complete, {})))
    return diagnostics.has_errors(cluster.findings(reader.cluster_of(document, builders.judge().complete)))


def _mutant(number: int, good: list[Any]) -> bytes:
    chance = random.Random(number)  # noqa: S311 - It is to be the same each time.
    act = chance.choice((structure.near, structure.far))
    return json.dumps(act(chance, copy.deepcopy(chance.choice(good)))).encode()


def _has_blind_spot(data: Any, messages: Sequence[str]) -> bool:
    """Return whether data holds a null, which the API server drops, or a bad key, which a CRD cannot check."""
    return _has_null(data) or any(words in message for message in messages for words in _ABOUT_KEYS)


_ABOUT_KEYS = ("is not a label key", "is not a resource of containers")


def _has_null(data: Any) -> bool:
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return data is None or any(map(_has_null, values))
