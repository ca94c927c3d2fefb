"""index.json, the only record of the files that the compiler wrote to output/<cluster>/.

While a rewrite is under way it names every file of the old and of the new tree and is marked incomplete. It holds no
digests: git has every content, and a compile compares files with the tree that it wants.

A merge may leave files in conflict, in git's styles merge, diff3 and zdiff3. A mark is seven characters long
(gitattributes(5), conflict-marker-size); in the ancestor that diff3 shows, marks of an earlier conflict are longer.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args

from compiler import names

NAME = "index.json"
"""The name of the file; it does not list itself."""

VERSION = 2
"""The version that is written. Version 1 maps each file to a digest, and has neither workloads nor hasNodes."""

Component = str
"""`driver`, `device-plugin`, or the name of a program of a recipe, which is none of the two."""
_OURS = ("driver", "device-plugin")
_PROGRAM = "[a-z][a-z0-9]{0,14}"
State = Literal["Present", "Absent"]

_Part = Literal["both", "ours", "ancestor", "theirs"]

_NEXT: dict[tuple[_Part, bytes], _Part] = {
    ("both", b"<<<<<<<"): "ours",
    ("ours", b"|||||||"): "ancestor",
    ("ours", b"======="): "theirs",
    ("ancestor", b"======="): "theirs",
    ("theirs", b">>>>>>>"): "both",
}


class Owner(NamedTuple):
    """A policy with its recipe: a policy that changes its recipe takes another stack away."""

    recipe: str
    policy: str


class Workload(NamedTuple):
    """A DaemonSet of a recipe."""

    file: str
    component: Component
    policy: str
    pool: str | None = None
    """None for a device plugin, and for a program that serves all pools of its policy."""
    state: State | None = None
    """The state of the driver; None for other components."""
    recipe: str = names.RECIPE
    """Written only where it is another one, as it is younger than the version."""

    @property
    def is_ours(self) -> bool:
        """True for a driver installer or our device plugin, and false for a vendor's program."""
        return self.component in _OURS

    @property
    def owner(self) -> Owner:
        """The policy that it belongs to."""
        return Owner(self.recipe, self.policy)


class Frozen(NamedTuple):
    """A frozen group of a policy, with a record of its entry at the compile."""

    policy: str
    group: str
    entry: str
    """A digest of the entry in the policy: a later compile tells by it whether a person has edited the entry."""


class Index(NamedTuple):
    """The content of index.json."""

    files: tuple[str, ...] = ()
    """Sorted paths below output/<cluster>/."""
    workloads: tuple[Workload, ...] = ()
    has_nodes: bool = False
    """True when the cluster's inventory had nodes at the compile."""
    declared: bool = False
    """True when the cluster had a KAECluster at the compile; an index without this field leaves it open."""
    frozen: tuple[Frozen, ...] | None = ()
    """The frozen groups of the cluster; None where the index has no such field."""
    complete: bool = True
    """False while a rewrite is under way."""
    version: int = VERSION
    """The version that was read."""

    @property
    def components(self) -> tuple[Component, ...]:
        """Those that it has workloads of, and always the driver and the device plugin, in the order of sentences."""
        return tuple(dict.fromkeys((*_OURS, *sorted(item.component for item in self.workloads))))

    def owners(self, component: Component, *, absent: bool = False) -> tuple[Owner, ...]:
        """Return the policies with DaemonSets of a component; a driver that is Absent counts only if it is wanted."""
        own = (item for item in self.workloads if item.component == component)
        return tuple(sorted({item.owner for item in own if absent or item.state != "Absent"}))

    def of_owner(self, component: Component, owner: Owner) -> tuple[Workload, ...]:
        """Return the DaemonSets of a policy's component."""
        return tuple(item for item in self.workloads if (item.component, item.owner) == (component, owner))

    def untold(self) -> tuple[str, ...]:
        """Return the files of DaemonSets of which nothing tells whose they are."""
        told = {item.file for item in self.workloads}
        return tuple(path for path in self.files if is_daemon_set(path) and path not in told)


_DAEMON_SET = re.compile(rf"([^/]+)/daemonset-\1-(driver|device-plugin|{_PROGRAM})-|(driver|device-plugin)/daemonset-")


def program(path: str) -> tuple[str, Component] | None:
    """Return the recipe and the component of the DaemonSet in a file; None for other files.

    The objects of a recipe but for KAE are in a folder of its name, and their names begin with it.
    """
    found = _DAEMON_SET.match(path)
    return (found[1] or names.RECIPE, found[2] or found[3]) if found else None


def is_daemon_set(path: str) -> bool:
    """Return whether a file of the compiler holds a DaemonSet of a recipe."""
    folder, _, name = path.partition("/")
    return name.startswith("daemonset-") and folder != "nfd"


def interim(old: Index | None, new: Index) -> Index:
    """Return the index of a rewrite under way, which covers both trees."""
    old = old or Index()
    return Index(
        files=tuple(sorted({*old.files, *new.files})),
        workloads=_sorted({*old.workloads, *new.workloads}),
        has_nodes=old.has_nodes or new.has_nodes,
        declared=old.declared or new.declared,
        frozen=tuple(sorted({*(old.frozen or ()), *(new.frozen or ())})),
        complete=False,
    )


def union(sides: tuple[Index, ...]) -> Index | None:
    """Return the index of everything that the sides of a merge record; None where there is none."""
    if len(sides) == 1:
        return sides[0]
    return interim(*sides) if sides else None


def text(index: Index) -> str:
    """Return the text of index.json: keys sorted, a file or a workload a line."""
    workloads = map(_fields, _sorted(index.workloads))
    return (
        "{\n"
        f'  "complete": {_json(index.complete)},\n'
        f'  "declared": {_json(index.declared)},\n'
        f'  "files": {_lines(sorted(index.files))},\n'
        f'  "frozen": {_lines(map(Frozen._asdict, sorted(index.frozen or ())))},\n'
        f'  "hasNodes": {_json(index.has_nodes)},\n'
        f'  "version": {VERSION},\n'
        f'  "workloads": {_lines(workloads)}\n'
        "}\n"
    )


def _fields(workload: Workload) -> dict[str, Any]:
    fields = workload._asdict()
    return fields if workload.recipe != names.RECIPE else {name: fields[name] for name in fields.keys() - {"recipe"}}


def sides(content: bytes) -> tuple[bytes, ...]:
    """Return our and their side of a file in conflict; the content alone if it is in none."""
    if b"<<<<<<<" not in content:
        return (content,)
    ours, theirs = bytearray(), bytearray()
    part: _Part = "both"
    marks = size = 0
    for line in content.splitlines(keepends=True):
        # Of a file that both sides have renamed, the marks are longer by one (merge-ort.c of git); ancestors may nest.
        mark = line.rstrip(b"\r\n").partition(b" ")[0]
        size = len(mark) if part == "both" else size
        following = _NEXT.get((part, mark[:7])) if len(mark) == size and mark == mark[:1] * size else None
        if following:
            part, marks = following, marks + 1
            continue
        if part in ("both", "ours"):
            ours += line
        if part in ("both", "theirs"):
            theirs += line
    return (bytes(ours), bytes(theirs)) if marks and part == "both" else (content,)


def is_marked(content: bytes) -> bool:
    """Return whether a file is in conflict."""
    return len(sides(content)) > 1


def read(content: bytes) -> tuple[Index, ...]:
    """Return the index, or the two of a merge conflict; nothing where one of them is damaged.

    A text that is no JSON is read line by line: whoever ends a conflict by hand forgets commas, or keeps lines twice.
    """
    texts = sides(content)
    indexes = [parse(side, joined=len(texts) > 1) or _by_line(side) for side in texts]
    return tuple(index for index in indexes if index) if all(indexes) else ()


def parse(content: bytes, *, joined: bool = False) -> Index | None:
    """Return the index that a text states, in any layout; None where the text is damaged.

    Where git has joined the lists of two branches, and left other lines in conflict, one branch's removal took a file
    from the list whose workload stands on the other's side: a joined side records the files of its workloads, too.
    """
    try:
        data = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or type(data.get("version")) is not int:  # Python takes true and 1.0 for 1.
        return None
    return _v1(data) if data["version"] == 1 else _v2(data, joined=joined)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ValueError for a key that is there twice, of which Python would take the last."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _by_line(content: bytes) -> Index | None:
    """Return the index of a text in which each line is one that `text` writes, with or without its comma."""
    lines = [line.strip().removesuffix(b",") for line in content.splitlines()]
    lines = [line for line in lines if line]
    if not lines or (lines[0], lines[-1]) != (b"{", b"}"):
        return None  # The rest of a text that was cut off is not known.
    data: dict[str, Any] = {}
    values = outside = list[Any]()
    try:
        for line in lines[1:-1]:
            key, separator, value = line.partition(b'": ')
            if separator and line.startswith(b'"'):
                name = json.loads(key + b'"')
                stated = json.loads(value + (b"]" if value == b"[" else b""))
                if isinstance(stated, list):
                    values = data.setdefault(name, [])
                else:
                    data[name] = _joined(name, data.get(name), stated)
            elif line != b"]":
                values.append(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    return _v2(data) if data.get("version") == VERSION and not outside else None


def _joined(name: str, one: Any, other: Any) -> Any:
    """Return the value of a line that is there twice: that of the more careful index."""
    if one is None or one == other:
        return other
    return name != "complete"


def _v1(data: Mapping[str, Any]) -> Index | None:
    data = {"complete": True, **data}
    if not _has(data, version=int, complete=bool, files=dict):
        return None
    if not all(isinstance(digest, str) and len(digest) == 64 for digest in data["files"].values()):
        return None
    return Index(files=tuple(sorted(data["files"])), frozen=None, complete=data["complete"], version=1)


def _v2(data: Mapping[str, Any], *, joined: bool = False) -> Index | None:
    data = {"declared": False, "frozen": None, **data}  # Its first indexes lack these.
    flags = dict.fromkeys(("complete", "hasNodes", "declared"), bool)
    if not _has(data, version=object, files=list, workloads=list, frozen=list | None, **flags):
        return None
    files, workloads, frozen = data["files"], data["workloads"], data["frozen"]
    if data["version"] != VERSION or not all(isinstance(path, str) for path in files):
        return None
    if joined:
        files = [*files, *_files(workloads)]
    if not all(_is_workload(fields, files) for fields in workloads):
        return None
    if not all(_has(fields, policy=str, group=str, entry=str) for fields in frozen or ()):
        return None
    return Index(
        files=tuple(sorted(set(files))),
        workloads=_sorted({Workload(**fields) for fields in workloads}),
        has_nodes=data["hasNodes"],
        declared=data["declared"],
        frozen=None if frozen is None else tuple(sorted({Frozen(**fields) for fields in frozen})),
        complete=data["complete"],
    )


def _files(workloads: Iterable[Any]) -> Iterator[str]:
    for fields in workloads:
        if isinstance(fields, dict) and isinstance(fields.get("file"), str):
            yield fields["file"]


def _has(data: Any, **kinds: type | UnionType) -> bool:
    """Return whether data is an object of these fields, each of its type."""
    is_object = isinstance(data, dict) and data.keys() == kinds.keys()
    return is_object and all(isinstance(data[name], kind) for name, kind in kinds.items())


def _is_workload(data: Any, files: Collection[str]) -> bool:
    """Return whether data holds the fields of a workload whose file is recorded."""
    if isinstance(data, dict):
        data = {"recipe": names.RECIPE, **data}
    return (
        _has(data, file=str, component=str, policy=str, recipe=str, pool=str | None, state=str | None)
        and data["file"] in files
        and (data["component"] in _OURS or (data["recipe"] != names.RECIPE and _is_program(data["component"])))
        and data["state"] in (None, *get_args(State))
    )


def _is_program(component: str) -> bool:
    return re.fullmatch(_PROGRAM, component) is not None


def corrected(index: Index, contents: Mapping[str, bytes]) -> Index:
    """Return the index with the workloads that these files deploy, whatever it says of them.

    Version 1 records no workloads. Of version 2, a workload may be cut out by hand, or said to be Absent, so that
    nobody is asked for its removal.
    """
    stated = [item for item in deployed(contents) if item.state != "Absent" or index.version == 1]
    told = {item.file for item in stated}
    return index._replace(workloads=(*(item for item in index.workloads if item.file not in told), *stated))


def deployed(contents: Mapping[str, bytes]) -> Iterator[Workload]:
    """Yield the workloads in the files of DaemonSets, without those that were edited beyond reading."""
    from compiler.formats import yaml_text  # noqa: PLC0415 - needed for few outputs

    for path, content in contents.items():
        try:
            daemon_set: Any = yaml_text.single(content.decode(), path)
            template = daemon_set["spec"]["template"]["metadata"]
            recipe, component = program(path) or ("", "")
            if component in _OURS:
                config = json.loads(template["annotations"][names.CONFIG])
            else:
                config = {"policy": template["labels"][names.POLICY_LABEL]}
            stated = {field: config[field] if component == "driver" else None for field in ("pool", "state")}
            own = {"policy": config["policy"], "recipe": recipe}
            if component not in _OURS:
                stated["pool"] = template["labels"].get(names.POOL_LABEL)
            fields = {"file": path, "component": component, **own, **stated}
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if _is_workload(fields, contents):
            yield Workload(**fields)


def _sorted(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    # An interim index may hold a file twice, with the old and with the new state.
    return tuple(sorted(workloads, key=lambda one: (one.file, one.recipe, one.policy, one.pool or "", one.state or "")))


def _lines(values: Iterable[Any]) -> str:
    lines = ",\n".join(f"    {_json(value)}" for value in values)
    return f"[\n{lines}\n  ]" if lines else "[]"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
