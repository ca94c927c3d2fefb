"""Values of the KAE Operator become valid documents, and nothing is lost in silence."""

import functools
import json
import operator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import diagnostics, pipeline, schema
from compiler.formats import decode
from compiler.migrate import operator_values, translation
from compiler.project import package_data
from tests import effort

JUDGE = schema.Judge(package_data.schemas())
NAMES = translation.Names(cluster="east")
REGISTRY = "cr.openfuyao.cn/openfuyao"
"""Where the operator publishes its images."""

Found = list[diagnostics.Diagnostic]


def translated(text: str, names: translation.Names = NAMES) -> tuple[tuple[dict[str, Any], ...], Found]:
    """Return the documents that a file's text is translated to, and the findings but for the operator's images."""
    objects, findings = with_images(text, names)
    return objects, [finding for finding in findings if finding.code != "operator-image"]


def with_images(text: str, names: translation.Names = NAMES) -> tuple[tuple[dict[str, Any], ...], Found]:
    read, findings = decode.decode("values.yaml", text.encode())
    assert findings == []
    return operator_values.translated(read, names, JUDGE)


def documents_of(text: str, names: translation.Names = NAMES) -> tuple[dict[str, Any], dict[str, Any]]:
    objects, findings = translated(text, names)
    assert not diagnostics.has_errors(findings), findings
    policy, cluster = objects
    return policy, cluster


def live(spec: object, **metadata: object) -> str:
    noise = {"uid": "5a", "resourceVersion": "7", "generation": 3, "managedFields": [{"manager": "helm"}]}
    document = {
        "apiVersion": "device.openfuyao.com/v1",
        "kind": "KAEPolicy",
        "metadata": {"name": "kae-policy", **noise, **metadata},
        "spec": spec,
        "status": {"state": "ready"},
    }
    return json.dumps(document)


def test_values_that_say_nothing_become_the_smallest_documents() -> None:
    policy, cluster = documents_of("{}")

    assert policy["metadata"] == {"name": "kae"}
    assert policy["spec"] == {
        "clusters": ["east"],
        "operator": {"enabledHPRE": True, "enabledSEC": False, "enabledZIP": False},
        "driver": {"repository": REGISTRY, "version": "latest"},
        "devicePlugin": {"repository": REGISTRY, "version": "latest"},
    }
    assert cluster["metadata"] == {"name": "east"}
    assert cluster["spec"] == {"nfd": {"enabled": True}}


def test_what_equals_a_default_is_not_written() -> None:
    policy, _ = documents_of("driver: {pullPolicy: IfNotPresent, enabledCleanup: false, image: other}")

    assert policy["spec"]["driver"] == {"repository": REGISTRY, "version": "latest", "image": "other"}


def images_of_operator(text: str) -> list[tuple[int, str]]:
    _, findings = with_images(text)
    own = diagnostics.merged(finding for finding in findings if finding.code == "operator-image")
    return [(finding.span.line, finding.message.split("'")[1].removeprefix(f"{REGISTRY}/")) for finding in own]


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("{}", [(1, "kae-device-plugin:latest"), (1, "kae-driver-installer:latest")]),
        ("devicePlugin: {enabled: false}\ndriver:\n  version: v2\n", [(3, "kae-driver-installer:v2")]),
        (
            f"devicePlugin: {{enabled: false}}\ndriver:\n  version: v2\n  repository: {REGISTRY}\n",
            [(4, "kae-driver-installer:v2")],
        ),
        ("devicePlugin: {enabled: false}\ndriver: {repository: example.com/own}\n", []),
        ("devicePlugin: {enabled: false}\ndriver: {image: own}\n", []),
        ("devicePlugin: {enabled: false}\ndriver: {enabled: false}\n", []),
        ("driver: {version: 1}\n", []),
    ],
)
def test_an_image_of_the_operator_is_told_unless_the_values_are_wrong(text: str, images: list[tuple[int, str]]) -> None:
    assert images_of_operator(text) == images


def test_a_component_that_is_off_has_no_version_to_pin() -> None:
    policy, _ = documents_of("driver: {enabled: false}")

    assert policy["spec"]["driver"] == {"enabled": False}


def test_names_come_from_the_command_line_first() -> None:
    names = translation.Names(cluster="west", policy="tls", namespace="accelerators")

    policy, cluster = documents_of(live({}), names)

    assert policy["metadata"]["name"] == "tls"
    assert policy["spec"]["clusters"] == ["west"]
    assert cluster["metadata"]["name"] == "west"
    assert cluster["spec"]["namespace"] == "accelerators"


def test_a_live_object_keeps_its_name_and_loses_what_the_api_server_added() -> None:
    objects, findings = translated(live({"driver": {"enabledCleanup": True}}, namespace="openfuyao"))

    policy, cluster = objects
    assert findings == []
    assert policy["metadata"] == {"name": "kae-policy"}
    assert policy["spec"]["driver"]["enabledCleanup"] is True
    assert cluster["spec"]["namespace"] == "openfuyao"
    assert set(policy) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize("kind", ["List", "KAEPolicyList"])
def test_a_list_of_one_is_that_one(kind: str) -> None:
    one = json.loads(live({"driver": {"version": "v2"}}))
    text = json.dumps({"apiVersion": "v1", "kind": kind, "items": [one]})

    policy, _ = documents_of(text)

    assert policy["spec"]["driver"] == {"repository": REGISTRY, "version": "v2"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": []}', 1),
        ("apiVersion: v1\nkind: ConfigMap\n", 2),
        ("apiVersion: example.com/v1\nkind: KAEPolicy\n", 2),
        ("- driver\n", 1),
        ("driver: {}\n---\ndriver: {}\n", 3),
    ],
)
def test_what_is_neither_values_nor_one_live_policy_is_refused_where_it_stands(text: str, line: int) -> None:
    objects, (finding,) = translated(text)

    assert objects == ()
    assert (finding.code, finding.span.line) == ("import-source", line)


def test_an_option_without_a_meaning_is_named_at_its_key_with_the_reason() -> None:
    _, (finding,) = translated("operator:\n  image: example.com/operator\n")

    assert (finding.code, finding.span.line, finding.span.column) == ("import-dropped", 2, 3)
    assert "'operator.image'" in finding.message
    assert "no controller" in finding.notes[0]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("driver: {verison: v1}", "'version'"),
        ("drivers: {version: v1}", "'driver'"),
        ("nodeFeatureDiscovery: {}", "'node-feature-discovery'"),
        ("operator: {enableSEC: true}", "'enabledSEC'"),
        ("driver.enabled: false", "'driver:'"),
    ],
)
def test_a_near_miss_of_an_option_is_told_what_was_probably_meant(text: str, hint: str) -> None:
    _, (finding,) = translated(text)

    assert finding.code == "import-dropped"
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("daemonSets: {affinity: {}}", "nodeSelector"),
        ("driver: {nodeSelector: {a: b}}", "nodeSelector"),
        ("hooks: {}", "hook of Helm"),
        ("node-feature-discovery: {master: {}}", "rather than by its chart"),
        ("operator: {resources: {}}", "no controller"),
        ("operator: {}\nglobal: {}", "nothing that it could mean"),
    ],
)
def test_what_no_table_lists_is_not_carried_over_and_the_reason_fits(text: str, why: str) -> None:
    objects, (finding,) = translated(text)

    assert len(objects) == 2
    assert why in finding.notes[0]


def test_an_option_without_a_value_leaves_the_default_and_says_so() -> None:
    objects, (finding,) = translated("driver:\n  version:\n")

    assert objects[0]["spec"]["driver"] == {"repository": REGISTRY, "version": "latest"}
    assert "the default holds" in finding.notes[0]


@pytest.mark.parametrize(
    ("text", "code", "place", "name"),
    [
        ('driver:\n  enabled: "yes"\n', "wrong-type", (2, 12), "'driver.enabled'"),
        ("driver:\n  version: 0.1\n", "wrong-type", (2, 12), "'driver.version'"),
        ("driver: true\n", "wrong-type", (1, 9), "'driver'"),
        ("driver:\n  env: {INSTALL_POLICY: 3}\n", "wrong-type", (2, 25), "'driver.env.INSTALL_POLICY'"),
        ("driver:\n  env: {INSTALL_POLICY: Never}\n", "install-policy", (2, 25), "'Never'"),
        ("driver:\n  env: Sometimes\n", "wrong-type", (2, 8), "'driver.env'"),
        ("driver:\n  env:\n  - {name: A, valueFrom: {}}\n", "unknown-field", (3, 15), "'driver.env[0]'"),
        ("daemonSets:\n  labels: {team: 3}\n", "wrong-type", (2, 18), "'daemonSets.labels.team'"),
        ("daemonSets:\n  tolerations: [{effect: NoSchedule}]\n", "toleration", (2, 17), "operator 'Exists'"),
        ("node-feature-discovery:\n  image: {tag: 5}\n", "wrong-type", (2, 16), "'node-feature-discovery.image.tag'"),
        ("node-feature-discovery:\n  image: {tag: v0.13.0}\n", "nfd-release", (2, 16), "'v0.13.0'"),
        ("psa:\n  enabled: 1\n", "wrong-type", (2, 12), "'psa.enabled'"),
        ("operator:\n  enabledHPRE: false\n", "no-kind-enabled", (1, 1), "'kae'"),
    ],
)
def test_a_mistake_is_told_where_it_stands_in_the_sources_own_names(
    text: str, code: str, place: tuple[int, int], name: str
) -> None:
    objects, (finding,) = translated(text)

    assert objects == ()
    assert finding.code == code
    assert (finding.span.file, finding.span.line, finding.span.column) == ("values.yaml", *place)
    assert name in finding.message


def test_every_mistake_is_told_at_once_beside_what_is_not_carried_over() -> None:
    _, findings = translated("driver: {enabled: 3}\npsa: {enabled: x}\noperator: {version: v1}\n")

    assert sorted(note.code for note in findings) == ["import-dropped", "wrong-type", "wrong-type"]


def test_a_mistake_in_a_live_object_is_told_by_its_whole_path() -> None:
    _, (finding,) = translated(live({"driver": {"version": 3}}))

    assert "'spec.driver.version'" in finding.message


def test_a_live_objects_name_that_no_policy_can_have_is_an_error_at_the_name() -> None:
    objects, (finding,) = translated(live({}, name="a.b"))

    assert objects == ()
    assert "'a.b'" in finding.message
    assert finding.span.text[finding.span.column - 1 :].startswith('"a.b"')


def test_fractions_of_quantities_become_strings_as_kubernetes_writes_them() -> None:
    policy, _ = documents_of("driver: {resources: {limits: {cpu: 0.5, memory: 1Gi}}}")

    assert policy["spec"]["driver"]["resources"] == {"limits": {"cpu": "0.5", "memory": "1Gi"}}


def test_what_is_imported_is_left_as_it_was() -> None:
    read, _ = decode.decode("values.yaml", b"driver: {env: {A: b}}")
    before = json.dumps(read[0].data)

    operator_values.translated(read, NAMES, JUDGE)

    assert json.dumps(read[0].data) == before


def test_the_text_is_passed_over_by_argo_cd_and_known_to_editors() -> None:
    objects, _ = translated("{}")

    lines = translation.text(objects).splitlines()

    assert lines[0] == "# +argocd:skip-file-rendering"
    assert lines[1] == "# yaml-language-server: $schema=../schemas/kaepolicy.json"
    assert lines[lines.index("---") + 1] == "# yaml-language-server: $schema=../schemas/kaecluster.json"


WORDS = st.sampled_from(["latest", "v1", "0.1", "19e5", "yes", "1e3", "sha256:" + "a" * 64])
LEAVES: dict[str, st.SearchStrategy[object]] = {
    "pullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
    "pullSecrets": st.lists(st.builds(dict, name=st.just("registry")), max_size=1),
    "resources": st.sampled_from([{}, {"limits": {"cpu": 2}}, {"requests": {"memory": "1Gi", "cpu": 0.25}}]),
    "labels": st.dictionaries(st.sampled_from(["team", "example.com/a"]), WORDS.filter(lambda w: ":" not in w)),
    "tolerations": st.lists(st.sampled_from([{"operator": "Exists"}, {"key": "a", "value": "1e3"}]), max_size=2),
    "env": st.dictionaries(st.sampled_from(["PROXY", "MAKEFLAGS"]), st.text(max_size=5)),
    "repository": st.just("registry.example.com/kae"),
    "image": st.just("own"),
    "version": WORDS,
    "tag": st.sampled_from(["v0.16.4", "v0.17.0"]),
    "priorityClassName": st.just("high"),
}


def leaf(path: tuple[str | int, ...]) -> st.SearchStrategy[object]:
    return LEAVES.get(str(path[-1]), st.booleans())


SETTINGS = st.fixed_dictionaries({}, optional={path: leaf(path) for path in sorted(operator_values.OPTIONS)})


@settings(max_examples=effort.examples(gate=15, long=60))
@given(SETTINGS)
def test_whatever_the_chart_takes_is_read_again_as_what_it_means(options: dict[tuple[str, ...], Any]) -> None:
    options[("operator", "enabledHPRE")] = True
    values: dict[str, Any] = {}
    for path, value in options.items():
        section = values
        for step in path[:-1]:
            section = section.setdefault(step, {})
        section[path[-1]] = value
    read, _ = decode.decode("values.json", json.dumps(values).encode())

    objects, notes = operator_values.translated(read, NAMES, JUDGE)
    again, findings = decode.decode("policies/imported.yaml", translation.text(objects).encode())
    _, faults = pipeline.read(again, JUDGE)

    assert not diagnostics.has_errors([*notes, *findings, *faults])
    for path, value in options.items():
        option = operator_values.OPTIONS[path]
        if option.kind is not None and isinstance(value, str | bool):
            (data,) = (item.data for item in again if item.data["kind"] == option.kind)
            assert functools.reduce(operator.getitem, option.target, JUDGE.complete(option.kind, data)) == value


def test_the_text_means_the_same_to_another_reader() -> None:
    objects, _ = translated('driver: {version: "19e5", env: {A: "yes", B: "1e3"}}')

    assert list(yaml.safe_load_all(translation.text(objects))) == list(objects)
