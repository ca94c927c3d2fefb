"""The schema stage: its findings, and the agreement of its two validators."""

import copy
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import API_VERSION, diagnostics, schema
from compiler.formats import documents
from compiler.schema import explanations
from compiler.schema import judge as engines
from tests import effort

FOLDER = pathlib.Path(__file__).parents[3] / "schemas"
SCHEMAS = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")}
JUDGE = schema.Judge(SCHEMAS)


class Paths:
    """Positions that name the path in place of a line."""

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        return diagnostics.Span(file="/".join(map(str, path)) + (":" if key else ""))


class Text:
    """Positions of a document whose every value begins one line."""

    def __init__(self, text: str) -> None:
        self.text = text

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        return diagnostics.Span(file="f.yaml", line=1, column=1, text=self.text)


def document(data: Any, positions: documents.Positions | None = None) -> documents.Document:
    return documents.Document("f.yaml", data, positions or Paths())


def policy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KAEPolicy", "metadata": {"name": "tls"}, "spec": spec}


def cluster(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KAECluster", "metadata": {"name": "east"}, "spec": spec}


def inventory() -> dict[str, Any]:
    profile = {
        "architecture": "arm64",
        "discovered": True,
        "kernelVersion": "5.10.0-216.0.0.115.oe2203sp4.aarch64",
        "labels": {"openfuyao.com/kae.hpre.pf": "2", "kubernetes.io/arch": "arm64"},
        "taints": [{"key": "dedicated", "value": "tls", "effect": "NoSchedule"}],
    }
    nodes = [{"name": "kp920-01", "profile": "0a1b2c3d", "labels": {"rack": "1"}, "hostname": ""}]
    spec = {"nodes": nodes, "profiles": {"0a1b2c3d": profile}}
    return {"apiVersion": API_VERSION, "kind": "NodeInventory", "metadata": {"name": "east"}, "spec": spec}


def node_list(kind: str = "List") -> dict[str, Any]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "kp920-01", "labels": {"rack": "1"}, "annotations": {"a": "b"}},
        "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
        "status": {"nodeInfo": {"architecture": "arm64", "kernelVersion": "5.10"}, "capacity": {"cpu": "2"}},
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": ""}, "items": [node]}


def findings(data: Any, positions: documents.Positions | None = None) -> list[diagnostics.Diagnostic]:
    return JUDGE.judge(document(data, positions))[1]


def only(data: Any, positions: documents.Positions | None = None) -> diagnostics.Diagnostic:
    (one,) = findings(data, positions)
    return one


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (policy(default=True), "KAEPolicy"),
        (policy(driver={"version": "2.0.3", "source": {"inTree": {}}}), "KAEPolicy"),
        (cluster(images={"mirrors": [{"from": "docker.io", "to": "mirror.local"}]}), "KAECluster"),
        (inventory(), "NodeInventory"),
        (node_list("List"), "NodeList"),
        (node_list("NodeList"), "NodeList"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "NodeList"),
    ],
)
def test_a_document_in_shape_has_its_kind_and_no_finding(data: Any, kind: str) -> None:
    assert JUDGE.judge(document(data)) == (kind, [])


@pytest.mark.parametrize("value", [0, 5, "0%", "10%", "100%"])
def test_a_number_or_a_percentage_of_pods_may_be_unavailable(value: Any) -> None:
    assert findings(policy(driver={"rollout": {"maxUnavailable": value}})) == []


@pytest.mark.parametrize("value", [2, 0.5, "500m", "1Gi", "1e3"])
def test_a_quantity_is_a_number_or_a_string(value: Any) -> None:
    assert findings(policy(driver={"resources": {"limits": {"cpu": value}}})) == []


@pytest.mark.parametrize(
    ("data", "said"), [(None, "no value"), ([], "a list"), ("a", "the string 'a'"), (5, "the number 5")]
)
def test_a_document_that_is_no_mapping_is_told_as_such(data: Any, said: str) -> None:
    one = only(data)

    assert one.code == "not-an-object"
    assert said in one.message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"spec": {}}, "missing-field"),
        ({"kind": None}, "wrong-type"),
        ({"kind": 5}, "wrong-type"),
        ({"kind": "Deployment", "foo": 1}, "unknown-kind"),
    ],
)
def test_without_a_kind_of_ours_nothing_else_is_said(data: Any, code: str) -> None:
    kind, (one,) = JUDGE.judge(document(data))

    assert kind is None
    assert (one.code, one.span.file) == (code, "kind")


@pytest.mark.parametrize(
    ("kind", "version", "right"),
    [("KAECluster", "device.openfuyao.com/v1", API_VERSION), ("KAEPolicy", "v1", API_VERSION), ("List", "v2", "v1")],
)
def test_an_unknown_version_is_answered_with_the_version_to_write(kind: str, version: str, right: str) -> None:
    one = only({"apiVersion": version, "kind": kind})

    assert (one.code, one.hint) == ("unknown-version", f"Write apiVersion: {right}.")


def test_a_missing_version_is_one_finding_beside_the_others() -> None:
    data = policy(foo=1)
    del data["apiVersion"]

    assert [(one.code, one.span.file) for one in findings(data)] == [
        ("missing-field", "apiVersion"),
        ("unknown-field", "spec/foo:"),
    ]


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"driver": {"tag": "2.2.0"}}, "Did you mean 'version'?"),
        ({"driver": {"registry": "example.com"}}, "Did you mean 'repository'?"),
        ({"driver": {"imagePullPolicy": "Always"}}, "Did you mean 'pullPolicy'?"),
        ({"driver": {"imagePullSecrets": []}}, "Did you mean 'pullSecrets'?"),
        ({"selector": {}}, "Did you mean 'nodeSelector'?"),
        ({"driver": {"rollout": {"frozen": [{"name": "a", "selector": {}}]}}}, "Did you mean 'inventorySelector'?"),
    ],
)
def test_a_field_with_the_name_of_charts_and_pods_is_told_with_its_name_here(spec: dict[str, Any], hint: str) -> None:
    assert only(policy(**spec)).hint == hint


def test_a_field_in_a_wrong_mapping_is_told_with_the_right_one() -> None:
    assert only(policy(waves=[])).hint == "Did you mean 'spec.driver.rollout.waves'?"
    assert only(cluster(argocd={})).hint == "Did you mean 'spec.gitops.argocd'?"


def test_a_field_that_several_mappings_have_is_told_with_the_fields_that_there_are() -> None:
    hint = only(policy(repository="example.com")).hint

    assert (
        hint
        == "Its fields are clusters, daemonSets, default, devicePlugin, driver, kubeletDir, nodeSelector and operator."
    )


def test_a_field_where_there_can_be_none_is_told() -> None:
    assert only(policy(driver={"source": {"inTree": {"version": "1"}}})).hint == "Write {}: it has no fields."


def test_a_misspelt_field_is_not_told_again_as_a_missing_one() -> None:
    one = only(cluster(images={"mirrors": [{"form": "a", "to": "b"}]}))

    assert (one.code, one.hint) == ("unknown-field", "Did you mean 'from'?")


def test_an_unknown_field_and_a_missing_one_of_a_mapping_are_both_told() -> None:
    codes = [one.code for one in findings(policy(driver={"env": [{"foo": "1"}]}))]

    assert sorted(codes) == ["missing-field", "unknown-field"]


def test_a_misspelt_field_of_a_foreign_object_is_told_as_missing() -> None:
    data = node_list()
    data["items"][0]["metadata"] = {"names": "a"}

    assert only(data).code == "missing-field"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        (
            {"nodeSelector": {"matchLabels": {"example.com/a": True}}},
            "Expected a string, found true in 'spec.nodeSelector.matchLabels[example.com/a]'.",
            'Put it in quotes: "true".',
        ),
        (
            {"nodeSelector": {"matchLabels": {"example.com/a": False}}},
            "Expected a string, found false in 'spec.nodeSelector.matchLabels[example.com/a]'.",
            'Put it in quotes: "false".',
        ),
        (
            {"operator": []},
            "Expected a mapping, found a list in 'spec.operator'.",
            "Its fields are enabledHPRE, enabledSEC and enabledZIP.",
        ),
        (
            {"daemonSets": {"labels": ["a"]}},
            "Expected a mapping, found a list in 'spec.daemonSets.labels'.",
            "Write each entry as 'key: value', without '- '.",
        ),
        (
            {"driver": {"env": {"A": True, "B": "c"}}},
            "Expected a list, found a mapping in 'spec.driver.env'.",
            'Write a list: [{name: A, value: "true"}, …].',
        ),
        (
            {"driver": {"env": ["A=b,c"]}},
            "Expected a mapping, found the string 'A=b,c' in 'spec.driver.env[0]'.",
            'Write {name: A, value: "b,c"}.',
        ),
        (
            {"driver": {"pullSecrets": ["regcred"]}},
            "Expected a mapping, found the string 'regcred' in 'spec.driver.pullSecrets[0]'.",
            "Write {name: regcred}.",
        ),
        (
            {"driver": {"pullSecrets": [["regcred"]]}},
            "Expected a mapping, found a list in 'spec.driver.pullSecrets[0]'.",
            "Its fields are name.",
        ),
        (
            {"driver": {"pullSecrets": "regcred"}},
            "Expected a list, found the string 'regcred' in 'spec.driver.pullSecrets'.",
            "Write a list, even of one: [{name: regcred}].",
        ),
        (
            {"driver": {"rollout": {"waves": [{"name": "early", "percent": "5%"}]}}},
            "Expected a number, found the string '5%' in 'spec.driver.rollout.waves[0].percent'.",
            "Write 5, without the sign.",
        ),
        (
            {"driver": {"rollout": {"waves": [{"name": "early", "percent": "2.5"}]}}},
            "Expected a number, found the string '2.5' in 'spec.driver.rollout.waves[0].percent'.",
            "Write 2.5, without quotes.",
        ),
        (
            {"driver": {"rollout": {"maxParallel": "5%"}}},
            "Expected a whole number, found the string '5%' in 'spec.driver.rollout.maxParallel'.",
            "",
        ),
        ({"default": None}, "'spec.default' has no value.", "Remove the key, or give it a value."),
        ({"clusters": [None]}, "'spec.clusters[0]' has no value.", "Remove the item, or give it a value."),
        (
            {"driver": {"resources": {"limits": {"cpu": float("inf")}}}},
            "Expected a quantity, such as 2, 500m or 1Gi, found the number inf in 'spec.driver.resources.limits.cpu'.",
            "",
        ),
    ],
)
def test_a_wrong_type_is_told_in_the_words_of_yaml(spec: dict[str, Any], message: str, hint: str) -> None:
    one = only(policy(**spec))

    assert (one.code, one.message, one.hint) == ("wrong-type", message, hint)


def test_a_number_for_a_string_is_put_in_quotes_as_the_document_spells_it() -> None:
    assert only(cluster(kubernetesVersion=1.3), Text("1.30  # the newest")).hint == 'Put it in quotes: "1.30".'


def test_a_key_that_is_no_string_is_told_at_the_key() -> None:
    one = only(policy(daemonSets={"labels": {5: "a"}}))

    assert (one.code, one.span.file) == ("wrong-type", "spec/daemonSets/labels/5:")
    assert one.hint == 'Put it in quotes: "5".'


@pytest.mark.parametrize(
    ("spec", "place", "message", "hint"),
    [
        (
            {"daemonSets": {"labels": {"a b": "c"}}},
            "spec/daemonSets/labels/a b:",
            "'a b' is not a label key, such as app or example.com/app.",
            "Did you mean 'a-b'?",
        ),
        (
            {"driver": {"rollout": {"maxUnavailable": "120%"}}},
            "spec/driver/rollout/maxUnavailable",
            "'120%' is not a whole number, or a percentage such as \"10%\".",
            "",
        ),
        ({"clusters": []}, "spec/clusters", "'spec.clusters' is empty.", "Remove the key, or give the list an item."),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"] * 257}]}},
            "spec/nodeSelector/matchExpressions/0/values",
            "'spec.nodeSelector.matchExpressions[0].values' has 257 items, but may have at most 256.",
            "Give these nodes a label in common, and select by it.",
        ),
        (
            {"devicePlugin": {"image": "a\n"}},
            "spec/devicePlugin/image",
            r"'a\n' is not a part of an image reference "
            "(at most 500 letters, digits, '.', '_', ':', '/', '@' and '-').",
            "Did you mean 'a'?",
        ),
        (
            {"driver": {"version": "2.3.0-${KERNEL_VERSION}"}},
            "spec/driver/version",
            "'2.3.0-${KERNEL_VERSION}' is not a part of an image reference "
            "(at most 500 letters, digits, '.', '_', ':', '/', '@' and '-', "
            "and ${KERNEL_FULL_VERSION} or ${KERNEL_XYZ}).",
            "",
        ),
        (
            {"driver": {"rollout": {"waves": [{"name": "a", "percent": 0.001}]}}},
            "spec/driver/rollout/waves/0/percent",
            "0.001 is not a number from 0.01 to 100.",
            "",
        ),
        (
            {"driver": {"kernelMappings": [{"name": "a", "literal": "5.10 *"}]}},
            "spec/driver/kernelMappings/0/literal",
            "'5.10 *' is not a kernel's full version, as `uname -r` prints it.",
            "",
        ),
        (
            {"driver": {"rollout": {"maxUnavailable": "10"}}},
            "spec/driver/rollout/maxUnavailable",
            "'10' is not a whole number, or a percentage such as \"10%\".",
            "Write 10, without quotes.",
        ),
    ],
)
def test_a_value_out_of_bounds_is_told_with_them(spec: dict[str, Any], place: str, message: str, hint: str) -> None:
    one = only(policy(**spec))

    assert (one.code, one.span.file, one.message, one.hint) == ("invalid-value", place, message, hint)


@pytest.mark.parametrize(
    ("version", "note", "hint"),
    [
        ("2.2.0 ", "It holds a space.", "Did you mean '2.2.0'?"),
        (" 2.2.0 ", "It holds spaces.", "Did you mean '2.2.0'?"),
        ("2.2.0 beta", "It holds a space.", "Did you mean '2.2.0-beta'?"),
    ],
)
def test_a_space_in_a_version_is_named(version: str, note: str, hint: str) -> None:
    one = only(policy(driver={"version": version}))

    assert (one.notes, one.hint) == ((note,), hint)


RENDER = "Write the value itself: nothing fills in a template or a variable here. Run Helm or envsubst before."
LIMITS = ("devicePlugin", "resources", "limits", "memory")
NO_VALUE = "Write the value itself, or give it to Helm, which wrote '<no value>' for want of one."
CPU = (*LIMITS[:-1], "cpu")
DRAIN = ("driver", "drain", "timeoutSeconds")


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        (DRAIN, "15m", "Write 900: the field is in seconds."),
        (DRAIN, "1h30m", "Write 5400: the field is in seconds."),
        (DRAIN, "900s", "Write 900: the field is in seconds."),
        (DRAIN, "9d", "Write a whole number from 1 to 86400: the field is in seconds."),
        (DRAIN, "9" * 23, "Write a whole number from 1 to 86400."),
        (DRAIN, "900", "Write 900, without quotes."),
        (DRAIN, "soon", ""),
        (DRAIN, "1h30", "Write 5400: the field is in seconds."),
        (DRAIN, "1h 30m", "Write 5400: the field is in seconds."),
        (DRAIN, "5 minutes", "Write 300: the field is in seconds."),
        (DRAIN, "30m1h", ""),
        (DRAIN, "5 months", ""),
        (DRAIN, "<no value>", NO_VALUE),
        (DRAIN, "${TIMEOUT}", RENDER),
        (("driver", "rollout", "maxParallel"), "15m", ""),
        (LIMITS, "128MB", "Did you mean '128M' or '128Mi'?"),
        (LIMITS, "128 mb", "Did you mean '128M' or '128Mi'?"),
        (LIMITS, "1KB", "Did you mean '1k' or '1Ki'?"),
        (LIMITS, "1.5GiB", "Did you mean '1.5Gi'?"),
        (LIMITS, "1 GB", "Did you mean '1G' or '1Gi'?"),
        (LIMITS, "<no value>", NO_VALUE),
        (LIMITS, "128 m", "Did you mean '128M' or '128Mi'?"),
        (CPU, "500 m", "Did you mean '500m'?"),
        (CPU, "2 cores", "Did you mean '2'?"),
        (LIMITS, "lots", ""),
        (("driver", "version"), "${VERSION}", RENDER),
        (("driver", "version"), "$VERSION", RENDER),
        (("driver", "version"), "<no value>", NO_VALUE),
        (("driver", "version"), "5 minutes", "Did you mean '5-minutes'?"),
        (("driver", "version"), "{{ .Values.version }}", RENDER),
        (("driver", "version"), "2-${KERNEL_VERSION}", ""),
        (("operator", "enabledSEC"), "${SEC}", RENDER),
        (("operator", "enabledSEC"), "{{ .Values.sec }}", RENDER),
    ],
)
def test_a_value_in_the_words_of_other_tools_is_told_in_ours(path: tuple[str, ...], value: str, hint: str) -> None:
    spec: Any = value
    for name in reversed(path):
        spec = {name: spec}

    assert only(policy(**spec)).hint == hint


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1h30", "Did you mean '1h30m'?"),
        ("90", "Did you mean '90s'?"),
        ("1d", "Did you mean '24h'?"),
        ("10 min", "Did you mean '10m'?"),
        ("0", ""),
        ("often", ""),
    ],
)
def test_a_duration_is_told_in_hours_minutes_and_seconds(value: str, hint: str) -> None:
    data = {"apiVersion": policy()["apiVersion"], "kind": "KAECluster", "metadata": {"name": "east"}}

    assert only({**data, "spec": {"watcher": {"interval": value}}}).hint == hint


def test_a_node_of_a_group_is_named_without_its_cluster() -> None:
    wave = {"name": "canary", "nodes": ["east/w01"]}

    hint = only(policy(driver={"rollout": {"waves": [wave]}})).hint

    assert hint == "Write w01: a group names nodes without their cluster, and `clusters` limits it to some."


def test_a_placeholder_of_a_recipe_is_no_variable_of_others() -> None:
    # `kae recipe` fills it in, though not everywhere.
    assert only(policy(driver={"version": "${values.version}"})).hint == ""


@pytest.mark.parametrize("data", [{"kind": "Kustomization"}, {"resources": []}])
def test_a_kustomization_among_the_documents_is_told_to_go(data: dict[str, Any]) -> None:
    one = JUDGE.judge(documents.Document("policies/kustomization.yaml", data, Paths()))[1][0]

    assert one.hint.startswith("Remove the file: every document of its folder is read, and `kae compile` writes")


def test_a_policy_says_what_it_is_for() -> None:
    absent = {key: value for key, value in policy().items() if key != "spec"}

    assert (only(policy()).message, only(absent).message) == ("'spec' is empty.", "'spec' is missing.")


def test_a_name_that_is_too_long_is_told_once_with_its_length() -> None:
    data = policy(default=True)
    data["metadata"]["name"] = "A" * 31

    one = only(data)

    assert one.code == "invalid-value"
    assert one.notes == ("It is 31 characters long.",)


@pytest.mark.parametrize(
    ("source", "said"), [({}, "found none."), ({"inTree": {}, "build": {}}, "found inTree and build.")]
)
def test_a_driver_has_exactly_one_source(source: dict[str, Any], said: str) -> None:
    one = only(policy(driver={"source": source}))

    assert (one.code, one.span.file) == ("invalid-value", "spec/driver/source")
    assert "exactly one of build, inTree, packages and prebuilt" in one.message
    assert one.message.endswith(said)


def test_an_unknown_source_is_told_as_that_alone() -> None:
    assert [one.code for one in findings(policy(driver={"source": {"build": {}, "git": {}}}))] == ["unknown-field"]


def test_every_mistake_of_a_document_is_told_in_the_order_of_places() -> None:
    mistakes = findings(policy(default="no", clusters=[], foo=1, operator={"enabledSEC": 1}))

    assert [one.span.file for one in mistakes] == [
        "spec/clusters",
        "spec/default",
        "spec/foo:",
        "spec/operator/enabledSEC",
    ]


def test_of_very_many_mistakes_the_first_are_told_and_that_there_are_more() -> None:
    mistakes = findings(policy(clusters=["A"] * 1000, **{f"x{index}": 1 for index in range(1000)}))

    assert len(mistakes) == explanations.MOST
    assert mistakes[-1].notes == ("Only 50 mistakes of the document are shown.",)


def test_a_value_far_too_long_is_told_in_short() -> None:
    data = policy(default=True)
    data["metadata"]["name"] = "a-" * 500_000 + "!"

    one = only(data)

    assert one.notes == ("It is 1000001 characters long.",)
    assert len(one.message) < 200


@pytest.mark.parametrize("data", [inventory(), node_list()], ids=["inventory", "list"])
def test_a_machine_written_document_gets_its_words_too(data: Any) -> None:
    target = data["spec"]["nodes"][0] if "spec" in data else data["items"][0]["metadata"]
    target["labels"]["a"] = 1

    assert only(data).hint == 'Put it in quotes: "1".'


@pytest.mark.parametrize("strange", [{5: "a"}, {"a": "\ud800"}], ids=["key", "unpaired surrogate"])
def test_what_the_quick_engine_cannot_read_is_left_to_the_other(strange: Any) -> None:
    data = inventory()
    data["spec"]["nodes"][0]["labels"] = strange

    assert len(findings(data)) == 1


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("^a[$]$", "a$", True),
        (r"^a\$$", "a$", True),
        (r"^[\]$]$", "$", True),
        ("^(a$|b)", "a\n", False),
    ],
)
def test_a_pattern_means_what_it_means_in_ecma_262(pattern: str, text: str, matches: bool) -> None:
    assert engines.is_found(pattern, text) is matches
    assert jsonschema_rs.Draft202012Validator({"pattern": pattern}).is_valid(text) is matches


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "a\n", "\n", "é", "😀", "a" * 400, "a.b", "A", "x/y", "0a1b2c3d", "NoSchedule", "Node"]),
)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),  # YAML also has infinity and NaN.
    st.sampled_from([1.0, 0.0, -0.0, 1, 0, 50, 100, "50%"]),
    TEXTS,
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)


def inner_paths(data: Any, path: documents.Path = ()) -> list[documents.Path]:
    steps = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    inner = [(*path, step) for step, _ in steps]
    return inner + [deep for step in inner for deep in inner_paths(data[step[-1]], step)]


@st.composite
def mutated(draw: st.DrawFn, original: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A valid document with up to three values dropped, renamed, added to or replaced."""
    data = copy.deepcopy(original())
    for _ in range(draw(st.integers(min_value=0, max_value=3))):
        paths = inner_paths(data)
        if not paths:
            return data
        *path, last = draw(st.sampled_from(paths))
        holder: Any = data
        for step in path:
            holder = holder[step]
        change = draw(st.sampled_from(["drop", "rename", "replace", "break", "add"]))
        if change == "replace":
            holder[last] = draw(VALUES)
        elif change == "break" and isinstance(holder[last], str):
            holder[last] += draw(st.sampled_from(["\n", " ", "é", "-", "." * 300]))
        elif change == "add" and isinstance(holder[last], dict):
            holder[last][draw(TEXTS)] = draw(VALUES)
        elif change == "rename" and isinstance(holder, dict):
            holder[draw(TEXTS)] = holder.pop(last)
        else:
            del holder[last]
    return data


GOLDEN = [
    copied
    for file in sorted(pathlib.Path(__file__).parents[2].glob("golden/*/policies/**/*.yaml"))
    for copied in yaml.load_all(file.read_bytes(), yaml.CSafeLoader)
]
STEMS = {"KAEPolicy": "kaepolicy", "KAECluster": "kaecluster", "NodeInventory": "nodeinventory", "List": "nodelist"}


@settings(max_examples=effort.examples(gate=100, long=600), deadline=None)
@given(
    data=st.one_of(
        mutated(inventory),
        mutated(node_list),
        st.sampled_from(GOLDEN).flatmap(lambda golden: mutated(lambda: golden)),
        st.builds(
            lambda kind, more: more | {"kind": kind}, st.sampled_from(sorted(STEMS)), st.dictionaries(TEXTS, VALUES)
        ),
    )
)
def test_both_engines_judge_every_document_alike(data: dict[str, Any]) -> None:
    for stem in [STEMS[kind]] if (kind := str(data.get("kind"))) in STEMS else STEMS.values():
        assert engines.thorough()(SCHEMAS[stem]).is_valid(data) is engines.quick(SCHEMAS[stem]).is_valid(data)


@settings(max_examples=effort.examples(gate=25, long=150), deadline=None)
@given(data=mutated(inventory) | mutated(node_list))
def test_a_document_has_findings_exactly_when_its_schema_refuses_it(data: dict[str, Any]) -> None:
    kind, mistakes = JUDGE.judge(document(data))

    stem = {"NodeInventory": "nodeinventory", "NodeList": "nodelist"}.get(kind or "")
    valid = stem is not None and engines.thorough()(SCHEMAS[stem]).is_valid(data)
    assert valid is (mistakes == [])
    assert all(one.code in diagnostics.CODES and one.message.endswith(".") for one in mistakes)
