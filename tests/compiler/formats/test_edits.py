"""An edit changes one place; an independent reader and a comparison of bytes find no other difference."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import errors
from compiler.formats import decode, documents, edits
from tests import effort

VERSION = ("spec", "driver", "version")
WAVE = ("spec", "driver", "rollout", "waves", 0, "version")
VERSIONS = st.sampled_from(
    ["2.3.0", "2.10", "1e5", "sha256:ab12", "2-${KERNEL_XYZ}", "latest", "", "a b", "x: y", "0x1"]
)


def source(text: str, name: str = "policies/tls.yaml") -> edits.Source:
    read, findings = decode.decode(name, text.encode())
    assert findings == []
    return edits.Source(name=name, text=text, documents=tuple(read))


def edited(text: str, value: str = "2.3.0", path: Any = VERSION, name: str = "policies/tls.yaml") -> str:
    return edits.written(source(text, name), 0, path, value).text


def differences(old: Any, new: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The paths at which the second of two values differs from the first, with what stands there."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key in old and key in new:
                yield from differences(old[key], new[key], (*path, key))
            else:
                yield (*path, key), new.get(key, "gone")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, (*path, index))
    elif (type(old), old) != (type(new), new):
        yield path, new


def changed(old: str, new: str) -> tuple[str, str]:
    """Return the removed and the inserted text: all between the common start and the common end."""
    begin = alike(old, new)
    end = alike(old[begin:][::-1], new[begin:][::-1])
    return old[begin : len(old) - end], new[begin : len(new) - end]


def alike(one: str, other: str) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, int]:
    """A file of policies in one of the ways that people write them, and which of its documents has a wave."""
    step = " " * draw(st.integers(1, 4))
    comment = st.sampled_from(["", " # why: {a: [b", "  # 'quoted\" é"])
    above = st.sampled_from(["", "# above\n", "\n", "      # deep\n"])
    word = st.sampled_from(["2.2.0", '"2.2.0"', "'2.2.0'", "&unused 2.2.0", '"2.\\x32"'])
    members = draw(
        st.permutations(
            [
                "name: canary",
                "percent: 5",
                *draw(st.lists(word.map(lambda each: f"version: {each}".replace("&unused", "&other")), max_size=1)),
            ]
        )
    )
    driver = [f"version: {draw(word)}", "image: kae"] if draw(st.booleans()) else ["image: kae"]
    lines = [*draw(st.sampled_from([[], ["---"], ["# +argocd:skip-file-rendering", "---"]]))]
    lines += ["kind: KAEPolicy", "metadata:", f"{step}name: tls{draw(comment)}", f"spec:{draw(comment)}"]
    if draw(st.booleans()):
        lines.append(f"{step}driver: {{{', '.join(driver)}, rollout: {{waves: [{{{', '.join(members)}}}]}}}}")
    else:
        lines += [f"{step}driver:{draw(comment)}", *(f"{step * 2}{member}{draw(comment)}" for member in driver)]
        lines += [f"{step * 2}rollout:", f"{step * 3}waves:"]
        dash = step * 3 + draw(st.sampled_from(["", step])) + "-"
        if draw(st.booleans()):
            lines.append(f"{dash} {{{', '.join(members)}}}{draw(comment)}")
        else:
            lines += [f"{dash if not number else ' ' * len(dash)} {member}" for number, member in enumerate(members)]
    text = "".join(f"{draw(above)}{line}\n" for line in lines)
    others = draw(st.lists(st.sampled_from(["kind: Other\n", "", "- 1\n- {a: &n b, c: *n}\n"]), max_size=2))
    whole = "---\n".join([*others, text, "x: z\n"] if draw(st.booleans()) else [*others, text])
    if draw(st.booleans()):
        whole = whole.rstrip("\n")
    return whole.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))), sum(1 for other in others if other)


@given(policies(), VERSIONS | st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([VERSION, WAVE]))
@settings(max_examples=effort.examples(gate=25, long=150))
def test_an_edit_changes_one_place_and_one_line(file: tuple[str, int], value: str, path: tuple[Any, ...]) -> None:
    text, index = file
    before = source(text)

    after = edits.written(before, index, path, value)

    old, new = (list(filter(None, yaml.safe_load_all(each.text))) for each in (before, after))
    same = before.documents[index].has(path) and old[index] == new[index]
    assert list(differences(old, new)) == ([] if same else [((index, *path), value)])
    cut, piece = changed(text, after.text)
    assert "\n" not in cut
    assert piece.count("\n") <= 1


@pytest.mark.parametrize(
    ("value", "plain", "single", "double"),
    [
        ("2.3.0", "2.3.0", "'2.3.0'", '"2.3.0"'),
        ("2.10", '"2.10"', "'2.10'", '"2.10"'),
        ("1e5", '"1e5"', "'1e5'", '"1e5"'),
        ("on", '"on"', "'on'", '"on"'),
        ("sha256:ab", "sha256:ab", "'sha256:ab'", '"sha256:ab"'),
        ("a #b", '"a #b"', "'a #b'", '"a #b"'),
        ("it's", "it's", "'it''s'", '"it\'s"'),
        ("a\n", '"a\\n"', '"a\\n"', '"a\\n"'),
        ("", '""', "''", '""'),
    ],
)
def test_quotes_stay_and_new_ones_come_where_readers_may_err(value: str, plain: str, single: str, double: str) -> None:
    results = [edited(f"spec: {{driver: {{version: {old}}}}}\n", value) for old in ("1.0.0", "'1.0.0'", '"1.0.0"')]

    assert results == [f"spec: {{driver: {{version: {new}}}}}\n" for new in (plain, single, double)]


@pytest.mark.parametrize(("driver", "quote"), [("\n    version: {}\n", ""), (" {{version: {}}}\n", '"')])
def test_braces_are_quoted_only_where_they_would_end_a_mapping(driver: str, quote: str) -> None:
    text = "spec:\n  driver:" + driver

    result = edited(text.format("2.2.0"), "2.3-${KERNEL_XYZ}")

    assert result == text.format(f"{quote}2.3-${{KERNEL_XYZ}}{quote}")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: b\n", "a: b\nspec:\n  driver:\n    version: 2.3.0\n"),
        ("a:\n   b: c # d\n# e", "a:\n   b: c # d\nspec:\n   driver:\n      version: 2.3.0\n# e"),
        ("a: b", "a: b\nspec:\n  driver:\n    version: 2.3.0"),
        ("a: b\r\nc: d", "a: b\r\nc: d\r\nspec:\r\n  driver:\r\n    version: 2.3.0"),
        ("spec: {}\n", "spec: {driver: {version: 2.3.0}}\n"),
        ("spec: {driver: {}}\n", "spec: {driver: {version: 2.3.0}}\n"),
        ("spec: { driver: { image: a } }\n", "spec: { driver: { version: 2.3.0, image: a } }\n"),
        ("spec:\n  a:\n  - b\n\n# c\n", "spec:\n  a:\n  - b\n  driver:\n    version: 2.3.0\n\n# c\n"),
        ("spec:\n  a: [b,\n    c]\n", "spec:\n  a: [b,\n    c]\n  driver:\n    version: 2.3.0\n"),
        ("x: &x {b: c}\nspec:\n  a: *x\n", "x: &x {b: c}\nspec:\n  a: *x\n  driver:\n    version: 2.3.0\n"),
        ("spec:\n  driver: # a\n    # b\n    c: d\n", "spec:\n  driver: # a\n    version: 2.3.0\n    # b\n    c: d\n"),
        ("spec:\n  driver: &a\n    b: c\n", "spec:\n  driver: &a\n    version: 2.3.0\n    b: c\n"),
    ],
)
def test_what_is_missing_on_the_way_is_added_where_a_person_would(text: str, wanted: str) -> None:
    assert edited(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- name: a\n  percent: 5\n", "- name: a\n  version: 2.3.0\n  percent: 5\n"),
        ("- percent: 5\n  name: a # b", "- percent: 5\n  name: a # b\n  version: 2.3.0"),
        ("-   name: a\n-   name: b\n", "-   name: a\n    version: 2.3.0\n-   name: b\n"),
        ("[{name: a}, {name: b}]\n", "[{name: a, version: 2.3.0}, {name: b}]\n"),
        ("- {percent: 5, name: 'a' }\n", "- {percent: 5, name: 'a', version: 2.3.0 }\n"),
        ("- &w {name: a}\n", "- &w {name: a, version: 2.3.0}\n"),
        ("- <<: {name: a}\n  percent: 5\n", "- <<: {name: a}\n  percent: 5\n  version: 2.3.0\n"),
    ],
)
def test_an_entry_gets_its_key_behind_its_name(text: str, wanted: str) -> None:
    head = "waves:\n" if text.startswith("-") else "waves: "

    assert edited(head + text, path=("waves", 0, "version")) == head + wanted


def test_a_name_that_is_an_alias_is_not_taken_for_its_place() -> None:
    text = "a: &n canary # x\nb:\n- name: *n\n  percent: 5\nc: [{name: *n , percent: 5}]\n"

    block = edited(text, path=("b", 0, "version"))
    flow = edited(text, path=("c", 0, "version"))

    assert block == text.replace("*n\n", "*n\n  version: 2.3.0\n")
    assert flow == text.replace("[{", "[{version: 2.3.0, ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"spec": {"driver": {"version": "2.2.0"}}}', '{"spec": {"driver": {"version": "2.3.0"}}}'),
        ('{"spec":{"driver":{}}}', '{"spec":{"driver":{"version": "2.3.0"}}}'),
        ('{"spec":{"a":1}}', '{"spec":{"driver":{"version": "2.3.0"}, "a":1}}'),
        ("{}\n", '{"spec": {"driver": {"version": "2.3.0"}}}\n'),
        (
            '{\r\n\t"spec" : {"driver" : {\r\n\t\t"name" : "a"\r\n\t}}\r\n}',
            '{\r\n\t"spec" : {"driver" : {\r\n\t\t"name" : "a",\r\n\t\t"version" : "2.3.0"\r\n\t}}\r\n}',
        ),
        (
            '{"spec": {"driver": {\n  "image": "a"\n}}}',
            '{"spec": {"driver": {\n  "version": "2.3.0",\n  "image": "a"\n}}}',
        ),
    ],
)
def test_json_keeps_its_form(text: str, wanted: str) -> None:
    assert edited(text, name="policies/tls.json") == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_takes_any_string(value: str) -> None:
    text = '{"\\ud83d\\ude00": "\\/", "spec": {"driver": {"version": "2.2.0"}}}'

    after = edited(text, value, name="policies/tls.json")

    assert json.loads(after) == {"\U0001f600": "/", "spec": {"driver": {"version": value}}}
    assert after.startswith(text[: text.index('"2.2.0"')])
    assert after.endswith("}}}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &v x\nspec: {driver: {version: *v}}\n", "by an anchor and its aliases"),
        ("spec: {driver: {version: &v x}}\na: *v\n", "by an anchor and its aliases"),
        ("spec: {driver: &d {image: x}}\na: *d\n", "by an anchor and its aliases"),
        ("spec: {driver: &d {version: x}}\na: {<<: *d}\n", "by an anchor and its aliases"),
        ("a: &d {version: x}\nspec: {driver: {<<: *d}}\n", "comes from a merge ('<<')"),
        ("a: &d {driver: {version: x}}\nspec: {<<: *d}\n", "comes from a merge ('<<')"),
        ("spec: {driver: {version: x}}\na: &v p\nb: &v q\n", "an anchor of the file is defined twice"),
        ("spec:\n  driver:\n    version: >\n      x\n", "is a block scalar"),
        ("spec:\n  driver:\n    version: &v\n      x\n", "cannot be changed without other changes"),
        ("spec:\n  a: |+\n    b\n\n\n", "cannot be changed without other changes"),
        ("? spec\n: ? driver\n  : ? image\n    : a\n", "cannot be changed without other changes"),
    ],
)
def test_what_no_single_edit_can_change_is_refused(text: str, words: str) -> None:
    with pytest.raises(errors.RefusedError) as refused:
        edited(text)

    assert words in refused.value.message
    assert refused.value.message.startswith("policies/tls.yaml:")
    assert refused.value.hint


def test_an_anchor_that_nobody_repeats_stays_beside_its_value() -> None:
    assert edited("spec: {driver: &d {version: &v '2.2.0'}}\n") == "spec: {driver: &d {version: &v '2.3.0'}}\n"


DOCUMENT = """\
# head
spec:
  driver:   # d
    version: 1.0.0
    rollout:
      waves:
        # first
        - name: a   # w
          percent: 5
        # second
        - name: b
          percent: 50

  # plugin
  devicePlugin: {version: 1.4.1}
"""
WAVES: documents.Path = ("spec", "driver", "rollout", "waves")
FLOW = "spec: {driver: {rollout: {waves: [{name: a, percent: 5}, {name: b, percent: 6}], maxParallel: 2}}}\n"


@pytest.mark.parametrize("text", [DOCUMENT, DOCUMENT.replace("\n", "\r\n"), DOCUMENT.rstrip(), FLOW])
@pytest.mark.parametrize("path", [WAVES, (*WAVES[:-1], "frozen"), (*WAVES[:1], "other", "frozen")])
def test_an_item_that_is_put_in_and_taken_out_leaves_the_text(text: str, path: documents.Path) -> None:
    before = source(text)
    count = len(before.documents[0].value(path)) if before.documents[0].has(path) else 0
    for at in range(count + 1):
        after = edits.inserted(before, 0, path, at, {"name": "c", "nodes": ["x"], "values": {"a": True, "b": [1]}})

        assert edits.removed(after, 0, (*path, at)).text == text


def test_the_comments_of_what_is_taken_out_stay() -> None:
    after = edits.removed(source(DOCUMENT), 0, (*WAVES, 0))

    gone = "        - name: a   # w\n          percent: 5\n"
    assert after.text == DOCUMENT.replace(gone, "        # w\n")


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("a:\n  b: [1, # why\n    2]\n  c: 3\n", ("a", "b", 0), "holds a comment, which would go"),
        ("a:\n  b:\n    c: 1 # why\n    d: 2\n  e: 1\n", ("a", "b"), "holds a comment, which would go"),
        ("a: &a\n  b: [1]\nc: *a\n", ("a", "b"), "shared by an anchor and its aliases"),
    ],
)
def test_what_would_lose_a_comment_or_change_more_is_refused(text: str, path: documents.Path, words: str) -> None:
    with pytest.raises(errors.RefusedError, match=words):
        (
            edits.removed(source(text), 0, path)
            if isinstance(path[-1], int)
            else edits.written(source(text), 0, path, {})
        )


def test_an_empty_list_takes_no_item_as_nothing_would_bring_it_back() -> None:
    with pytest.raises(errors.RefusedError, match="is empty"):
        edits.inserted(source("spec:\n  driver:\n    frozen: []\n"), 0, ("spec", "driver", "frozen"), 0, "a")


def test_a_document_goes_with_its_mark_alone() -> None:
    text = "# head\na: 1\n---\n---\n# own\nb: 2 # x\n...\n---\nc: 3\n"

    without = [edits.without(source(text), index) for index in range(3)]

    assert [each.text if each else "" for each in without] == [
        "# head\n---\n---\n# own\nb: 2 # x\n...\n---\nc: 3\n",
        "# head\na: 1\n---\n---\nc: 3\n",
        "# head\na: 1\n---\n---\n# own\nb: 2 # x\n...\n",
    ]
    assert edits.without(source("a: 1\n"), 0) is None
