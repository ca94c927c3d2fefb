"""What expressions of recipes may set in pods, as a table of attacks."""

import pytest

from compiler.fleet import expressions

CONTAINER = "Object.spec.containers"


def faults(text: str, *, sets: bool = True) -> list[str]:
    return [one.message for one in expressions.read(text, sets=sets) if isinstance(one, expressions.Fault)]


@pytest.mark.parametrize(
    "text",
    [
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{name: "a", securityContext: '
        f"{CONTAINER}.securityContext{{privileged: true}}}}]}}}}",
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{name: "a", "securityContext": {{}}}}]}}}}',
        'Object{spec: Object.spec{containers: [{"name": "a", "image": "b"}]}}',
        'Object{spec: {"hostPID": true}}',
        'Object{spec: dyn({"hostPID": true})}',
        'Object{spec: [{"hostPID": true}][0]}',
        "Object{spec: Object.spec{hostNetwork: true}}",
        "Object . spec{hostNetwork: true}",
        "Object// a comment\n{spec: Object.spec{hostNetwork: true}}",
        "Object{spec: Object.spec{?hostPID: optional.of(true)}}",
        "Object{spec: Object.spec{`hostPID`: true}}",
        'true ? Object{spec: Object.spec{nodeName: "x"}} : Object{}',
        "type(Object)",
        'JSONPatch{op: "add", path: "/spec/hostPID", value: true}',
        'Object{metadata: Object.metadata{labels: {"a": "b"}}}',
        'Object{metadata: Object.metadata{annotations: {"a" + "b": "c"}}}',
        'Object{metadata: Object.metadata{annotations: {variables.key: "c"}}}',
        'Object{metadata: Object.metadata{annotations: {"a\\u0062": "c"}}}',
        'Object{spec: Object.spec{volumes: [Object.spec.volumes{hostPath: Object.spec.volumes.hostPath{path: "/e" + '
        '"tc"}}]}}',
        "Object{spec: Object.spec{volumes: [Object.spec.volumes{hostPath: Object.spec.volumes.hostPath{path: "
        "variables.path}}]}}",
        "Object{spec: Object.spec{volumes: [Object.spec.volumes{secret: Object.spec.volumes.secret{}}]}}",
        'Object{spec: Object.spec{serviceAccountName: "admin"}}',
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{name: "a", image: "b"}}]}}}}',
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{name: "a", command: ["b"]}}]}}}}',
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{resources: {CONTAINER}.resources{{limits: {{"a": '
        '{"b": 1}}}}]}}',
        '{"spec": {}}',
        'Object{spec: url("https://x/?hostPID=1").getQuery().transformMap(k, v, true)}',
        "Object{spec: namespaceObject.metadata.annotations}",
        "Object{spec: true ? Object.spec{} : (object.spec)}",
        "Object{spec: Object.spec{}.orValue(object.spec)}",
        "Object{spec: Object.spec{volumes: object.spec.volumes + [Object.spec.volumes{}]}}",
        f"Object{{spec: Object.spec{{containers: [{CONTAINER}{{resources: {CONTAINER}.resources{{limits: "
        "object.metadata.annotations}}]}}",
        f"Object{{spec: Object.spec{{containers: [{CONTAINER}{{}}].map(c, c)}}}}",
        "variables.whole",
        "Object{spec: Object.spec{volumes: [variables.volume]}}",
        "((",
        ")",
        "Object{}}",
        "Object.spec(object){}",
        'Object{metadata: Object.metadata{annotations: {"a": r"\\"}}, spec: Object.spec{hostPID: 1 // "\n}}',
        *(f"Object{{spec: Object.spec{{hostPID: {prefix}'true'}}}}" for prefix in ("r", "R", "b", "rb", "bR")),
        "Object{metadata:\u00a0Object.metadata{}}",
        f'Object{{spec: Object.spec{{containers: [{CONTAINER}{{env: [{CONTAINER}.env{{name: "A" + c}}]}}]}}}}',
        "{}[0]{}",
    ],
)
def test_an_expression_sets_nothing_but_what_is_listed(text: str) -> None:
    assert faults(text) != []


def test_a_condition_and_a_variable_make_no_object() -> None:
    assert faults("Object{}", sets=False) == ["Only a mutation makes an Object."]
    assert faults('{"a": 1}', sets=False) != []
    assert faults("object.spec.containers.filter(c, 'a/b' in c.resources.limits)", sets=False) == []


def test_what_is_set_is_listed() -> None:
    text = (
        'Object{metadata: Object.metadata{annotations: {"example.com/a": "1"}}, spec: Object.spec{containers: '
        f'object.spec.containers.map(c, {CONTAINER}{{name: c.name, env: [{CONTAINER}.env{{name: "A", value: "1"}}], '
        f'resources: {CONTAINER}.resources{{limits: true ? {{"example.com/b": "1"}} : {{}}}}}}), volumes: '
        '[Object.spec.volumes{name: "v", hostPath: Object.spec.volumes.hostPath{path: "/run/v"}}]}}'
    )

    assert set(expressions.read(text)) == {
        expressions.Set("annotations", "example.com/a"),
        expressions.Set("env", "A"),
        expressions.Set("limits", "example.com/b"),
        expressions.Set("hostPath", "/run/v"),
    }


@pytest.mark.parametrize("prefix", ["r", "R", "b", "B", "rb", "Br"])
def test_a_text_with_a_prefix_is_read_by_nobody(prefix: str) -> None:
    # In r"\" the backslash escapes nothing, and whoever thinks so takes code for a text.
    assert faults(f'Object{{metadata: Object.metadata{{annotations: {{"a/b": {prefix}"\\"}}}}}}') != []
