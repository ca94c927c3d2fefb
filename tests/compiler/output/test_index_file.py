"""index.json as a value: read, written, in conflict, and taken over from version 1."""

import json
import subprocess
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.formats import canonical
from compiler.output import index_file, tree

PARTS = st.builds(str.__add__, st.sampled_from("abc0"), st.text("a0.-", max_size=3))
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join).filter(tree.is_path)
DIGEST = tree.digest(b"x")


@st.composite
def indexes(draw: st.DrawFn) -> index_file.Index:
    """Any index that a compile may write."""
    files = tuple(sorted(draw(st.sets(PATHS, max_size=6))))
    drivers = st.builds(
        index_file.Workload,
        file=st.sampled_from(files or ("x",)),
        component=st.just("driver"),
        policy=PARTS,
        pool=PARTS,
        state=st.sampled_from(["Present", "Absent"]),
    )
    plugins = st.builds(
        index_file.Workload, file=st.sampled_from(files or ("x",)), component=st.just("device-plugin"), policy=PARTS
    )
    workloads = draw(st.lists(drivers | plugins, max_size=3, unique_by=lambda item: item.file)) if files else []
    return index_file.Index(
        files=files,
        workloads=tuple(sorted(workloads, key=lambda item: item.file)),
        has_nodes=draw(st.booleans()),
        declared=draw(st.booleans()),
        frozen=draw(
            st.sets(st.builds(index_file.Frozen, policy=PARTS, group=PARTS, entry=PARTS)).map(sorted).map(tuple)
        ),
        complete=draw(st.booleans()),
    )


def test_an_empty_index_has_empty_lists() -> None:
    text = index_file.text(index_file.Index(files=(), complete=False))

    assert json.loads(text) == {
        "complete": False,
        "declared": False,
        "files": [],
        "frozen": [],
        "hasNodes": False,
        "version": 2,
        "workloads": [],
    }


def test_the_first_indexes_of_version_2_leave_open_what_they_lack() -> None:
    text = '{"complete": true, "files": [], "hasNodes": true, "version": 2, "workloads": []}'

    index = index_file.parse(text.encode())

    assert index == index_file.Index(files=(), has_nodes=True, declared=False, frozen=None)


@hypothesis.given(indexes())
def test_an_index_is_read_back_as_it_was_written(index: index_file.Index) -> None:
    assert index_file.parse(index_file.text(index).encode()) == index


@hypothesis.given(indexes(), st.data())
def test_an_index_that_lost_its_end_is_damaged(index: index_file.Index, data: st.DataObject) -> None:
    text = index_file.text(index).rstrip().encode()
    length = data.draw(st.integers(0, len(text) - 1))

    assert index_file.parse(text[:length]) is None
    assert index_file.read(text[:length]) == ()


def with_workloads(**states: str) -> index_file.Index:
    workloads = (
        index_file.Workload(file=f"{name}.yaml", component="driver", policy=name, pool=name, state=state)  # type: ignore[arg-type]
        for name, state in states.items()
    )
    return index_file.Index(files=tuple(f"{name}.yaml" for name in states), workloads=tuple(workloads), declared=True)


OURS, THEIRS = with_workloads(a="Present", b="Present"), with_workloads(a="Absent", c="Present")


def in_conflict(*texts: str) -> bytes:
    ours, theirs = texts
    return f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> main\n".encode()


def test_an_index_in_conflict_has_two_sides_and_records_what_either_does() -> None:
    sides = index_file.read(in_conflict(index_file.text(OURS), index_file.text(THEIRS)))
    joined = index_file.union(sides)

    assert sides == (OURS, THEIRS)
    assert joined is not None
    assert (joined.files, joined.complete) == (("a.yaml", "b.yaml", "c.yaml"), False)
    assert set(joined.workloads) == {*OURS.workloads, *THEIRS.workloads}


def test_a_side_in_conflict_records_the_files_of_its_workloads() -> None:
    text = index_file.text(with_workloads(a="Present", b="Present"))
    files, kept = '    "a.yaml",\n    "b.yaml"\n', '    "a.yaml"\n'
    (of_b,) = (line for line in text.splitlines(keepends=True) if '"policy": "b"' in line)
    marked = text.replace(files, kept).replace(of_b, f"<<<<<<< HEAD\n{of_b}=======\n>>>>>>> main\n")

    ours, theirs = index_file.read(marked.encode())

    assert (ours.files, theirs.files) == (("a.yaml", "b.yaml"), ("a.yaml",))
    assert index_file.read(text.replace(files, kept).encode()) == ()


def test_one_damaged_side_damages_an_index_in_conflict() -> None:
    assert index_file.read(in_conflict(index_file.text(OURS), "{\n")) == ()


@hypothesis.given(indexes(), indexes(), st.sampled_from(["", ","]))
def test_an_index_of_which_a_person_kept_both_sides_is_read_by_line(
    one: index_file.Index, other: index_file.Index, comma: str
) -> None:
    bodies = [text.removeprefix("{\n").removesuffix("\n}\n") for text in map(index_file.text, (one, other))]
    text = f"{{\n{bodies[0]}{comma}\n{bodies[1]}\n}}\n"

    (joined,) = index_file.read(text.encode())

    assert joined.files == tuple(sorted({*one.files, *other.files}))
    assert set(joined.workloads) == {*one.workloads, *other.workloads}
    assert set(joined.frozen or ()) == {*(one.frozen or ()), *(other.frozen or ())}
    assert joined.complete == (one.complete and other.complete)
    assert joined.has_nodes == (one.has_nodes or other.has_nodes)
    assert joined.declared == (one.declared or other.declared)


@pytest.mark.parametrize(("line", "other"), [('    "a.yaml",', '    "a.yaml"'), ("  ],", "  ]")])
def test_a_missing_comma_damages_no_index(line: str, other: str) -> None:
    assert index_file.read(index_file.text(OURS).replace(line, other).encode()) == (OURS,)


@pytest.mark.parametrize(
    "damage", [('"a.yaml",', "a.yaml,"), ('"a.yaml",', "{"), ('  "files": [\n', ""), ("2,", "3,"), ("true,", "1,")]
)
def test_a_line_that_the_compiler_does_not_write_damages_an_index(damage: tuple[str, str]) -> None:
    text = index_file.text(OURS)
    assert damage[0] in text

    assert index_file.read(text.replace(*damage, 1).encode()) == ()


def test_an_interim_index_keeps_the_old_and_the_new_state_of_a_workload() -> None:
    old, new = (
        index_file.Workload(file="d.yaml", component="driver", policy="tls", pool="rest", state=state)
        for state in ("Present", "Absent")
    )
    before = index_file.Index(files=("d.yaml", "x.yaml"), workloads=(old,), has_nodes=True)
    after = index_file.Index(files=("d.yaml",), workloads=(new,))

    interim = index_file.interim(before, after)

    assert interim == index_file.Index(files=("d.yaml", "x.yaml"), workloads=(new, old), has_nodes=True, complete=False)
    assert index_file.parse(index_file.text(interim).encode()) == interim


@pytest.mark.parametrize("complete", [True, False])
def test_version_1_is_read_as_an_index_without_workloads(complete: bool) -> None:
    data = {"version": 1, "files": {"b": DIGEST, "a": DIGEST}} | ({} if complete else {"complete": False})

    index = index_file.parse(json.dumps(data).encode())

    assert index == index_file.Index(files=("a", "b"), complete=complete, frozen=None, version=1)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 3, "files": {}}',
        b'{"version": true, "files": {}}',
        b'{"version": 1.0, "files": {}}',
        b'{"version": 1}',
        b'{"version": 1, "files": []}',
        b'{"version": 1, "files": {"a": 1}}',
        b'{"version": 1, "files": {"a": "short"}}',
        b'{"version": 1, "files": {}, "complete": "no"}',
        b'{"version": 1, "files": {}, "more": 1}',
        b'{"version": 2, "files": []}',
        b'<<<<<<< HEAD\n{"version": 1, "files": {}}\n=======\n',
    ],
)
def test_what_is_no_index_is_damaged(text: bytes) -> None:
    assert index_file.parse(text) is None


WORKLOAD = {"file": "d.yaml", "component": "driver", "policy": "tls", "pool": "rest", "state": "Present"}


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 3},
        {"version": "2"},
        {"version": True},
        {"version": 2.0},
        {"complete": "yes"},
        {"hasNodes": 1},
        {"files": {}},
        {"files": ["d.yaml", 1]},
        {"files": []},
        {"workloads": {}},
        {"workloads": [1]},
        {"workloads": [WORKLOAD | {"file": "../x"}]},
        {"workloads": [WORKLOAD | {"component": "nfd"}]},
        {"workloads": [WORKLOAD | {"policy": None}]},
        {"workloads": [WORKLOAD | {"pool": 1}]},
        {"workloads": [WORKLOAD | {"state": "present"}]},
        {"workloads": [WORKLOAD | {"state": []}]},
        {"workloads": [WORKLOAD | {"more": 1}]},
        {"more": 1},
    ],
)
def test_an_index_with_a_wrong_field_is_damaged(damage: dict[str, Any]) -> None:
    sound = {"version": 2, "complete": True, "hasNodes": True, "files": ["d.yaml"], "workloads": [WORKLOAD]}

    assert index_file.parse(json.dumps(sound).encode()) is not None
    assert index_file.parse(json.dumps(sound | damage).encode()) is None


TEXTS = "a\nours\nc\nd\n", "a\nb\nc\nd\n", "a\ntheirs\nc\nd\nmore\n"


def merged(folder: Path, style: str, *texts: str) -> bytes:
    """Return what git writes for our text, that of the ancestor, and theirs."""
    names = ("ours", "base", "theirs")
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_bytes(text.encode())
    options = [] if style == "merge" else [f"--{style}"]
    labels = [part for label in ("HEAD", "", "main") for part in ("-L", label)]
    done = subprocess.run(
        ("git", "merge-file", "--stdout", *options, *labels, *names), cwd=folder, capture_output=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_sides_are_read_in_each_style(style: str, end: str, tmp_path: Path) -> None:
    ours, base, theirs = (text.replace("\n", end) for text in TEXTS)
    text = merged(tmp_path, style, ours, base, theirs)

    # What merged without a conflict is in both.
    assert index_file.sides(text) == (f"{ours}more{end}".encode(), theirs.encode())
    assert index_file.is_marked(text)


def test_a_file_may_have_several_conflicts(tmp_path: Path) -> None:
    ours, base, theirs = (f"{text}1\n2\n3\n4\n{text}" for text in ("x\n", "y\n", "z\n"))

    assert index_file.sides(merged(tmp_path, "merge", ours, base, theirs)) == (ours.encode(), theirs.encode())


def test_the_marks_of_a_file_that_both_sides_have_renamed_are_longer() -> None:
    text = b"a: 1\n<<<<<<<< HEAD:x\nb: 1\n|||||||| base:y\nb: 0\n=======\n========\nb: 2\n>>>>>>>> other:z\nc: 1\n"

    assert index_file.sides(text) == (b"a: 1\nb: 1\nc: 1\n", b"a: 1\nb: 2\nc: 1\n")


def test_longer_marks_of_an_ancestor_are_its_text() -> None:
    text = b"<<<<<<< HEAD\nours\n||||||| 1\n<<<<<<<<< x\n=========\n>>>>>>>>> y\n=======\ntheirs\n>>>>>>> main\n"

    assert index_file.sides(text) == (b"ours\n", b"theirs\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a\n",
        b"<<<<<<< HEAD\na\n",
        b"<<<<<<< HEAD\na\n=======\nb\n",
        b"=======\na\n>>>>>>> main\n",
        b"<<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n",
    ],
)
def test_a_file_without_a_whole_conflict_is_its_own_only_side(text: bytes) -> None:
    assert index_file.sides(text) == (text,)
    assert not index_file.is_marked(text)


PATH = "driver/daemonset-kae-driver-tls.yaml"


def daemon_set(config: str) -> bytes:
    template = {"metadata": {"annotations": {"device.openfuyao.com/config": config}}}
    return canonical.dump_yaml({"kind": "DaemonSet", "spec": {"template": template}}).encode()


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_driver_is_read_from_the_config_in_its_pod_template(state: index_file.State) -> None:
    config = {"policy": "tls", "pool": "canary", "state": state, "driverVersion": "2.2.0"}

    listed = list(index_file.deployed({PATH: daemon_set(json.dumps(config, indent=2))}))

    assert listed == [index_file.Workload(file=PATH, component="driver", policy="tls", pool="canary", state=state)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"a: {",
        b"a: 1\n",
        b"spec: []\n",
        daemon_set("{"),
        daemon_set("[]"),
        daemon_set("{}"),
        daemon_set('{"policy": 1, "pool": "tls", "state": "Present"}'),
        daemon_set('{"policy": "tls", "pool": "tls", "state": "gone"}'),
    ],
)
def test_a_file_that_was_edited_beyond_reading_deploys_no_driver(content: bytes) -> None:
    assert list(index_file.deployed({PATH: content})) == []
