"""The difference between two revisions as the comment of a pull request: most dangerous first, and never too long."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler import wording
from compiler.changes.difference import Difference
from compiler.changes.effects import Work
from compiler.changes.intent import DocumentChange, FieldChange
from compiler.diagnostics import Findings
from compiler.views.diff import effect_sentences, risk_groups
from compiler.views.diff import text as diff_text
from compiler.views.review import ranking
from compiler.views.review.escapes import code, prose

LIMIT = 65_000
"""Bytes, and so characters, of a comment. GitHub refuses one of more than 65,536 characters; who posts it adds some."""

_NAMES = 3
"""Nodes that a row of the table on top names."""

_LINE = 20
"""Nodes on a line of the folded list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    text: str
    weight: int = 1
    """The number of things that it shows, of which it is told how many are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the comment, which is cut where it is too long."""

    title: str = ""
    """The line that stands for a part that is folded; empty for one that is not."""
    head: str = ""
    noun: str
    rows: Sequence[_Row]


def text(difference: Difference, risks: Findings = (), accepted: Iterable[risk_groups.Group] = ()) -> str:
    """Return the comment on a difference; empty where nothing differs. `accepted` are risks that are not in `risks`."""
    if difference.is_empty:
        return ""
    command = _command(difference)
    top, end = f"### {_title(difference)}\n", f"\n{_foot(difference, command)}\n"
    room = LIMIT - len(f"{top}{end}".encode())
    parts = [part for part in _parts(difference, risks, accepted) if part.rows]
    rooms = _rooms([len(_whole(part).encode()) for part in parts], room)
    body = "".join(_fitted(part, own, command) for part, own in zip(parts, rooms, strict=True))
    return f"{top}{body}{end}"


def _rooms(sizes: Sequence[int], room: int) -> Sequence[int]:
    """Return the bytes for each part: equal ones for all that are too long, which share what the short ones leave."""
    rooms = dict.fromkeys(range(len(sizes)), 0)
    for rank, index in enumerate(sorted(rooms, key=sizes.__getitem__)):
        rooms[index] = min(sizes[index], room // (len(sizes) - rank))
        room -= rooms[index]
    return tuple(rooms.values())


def _parts(difference: Difference, risks: Findings, accepted: Iterable[risk_groups.Group]) -> Iterator[_Part]:
    ranked = ranking.sentences(difference.effects)
    yield _Part(noun="line", rows=_plain_rows(diff_text.faults(difference)))
    yield _Part(head=_table("effect", "nodes", "what happens"), noun="sentence", rows=_effects(difference, ranked))
    yield _Part(noun="sentence", rows=[_Row(text=f"**{prose(line)}**") for line in _sums(difference)])
    yield _Part(head="**Risks**\n\n", noun="risk", rows=[*_risks(risks), *_accepted(accepted)])
    yield _folded("Privileges", "line", _plain_rows(diff_text.privileges(difference)))
    yield _folded("Nodes", "node", _nodes(difference, ranked))
    edits = _edits(difference.intent)
    yield _folded("Edits", "edit", edits, _table("line", "field", "before", "after"))
    yield _folded("Pods", "workload", _pods(difference), _table("workload", "created", "replaced", "deleted"))
    yield _folded("Objects", "line", _plain_rows(diff_text.objects(difference)))


def _folded(title: str, noun: str, rows: Sequence[_Row], head: str = "") -> _Part:
    number = "" if noun == "line" else f" ({sum(row.weight for row in rows)})"
    return _Part(title=f"{title}{number}", head=head, noun=noun, rows=rows)


def _frame(part: _Part) -> tuple[str, str]:
    """Return what is before the rows of a part, and what is after them."""
    if not part.title:
        return f"\n{part.head}", ""
    return f"\n<details><summary>{part.title}</summary>\n\n{part.head}", "\n</details>\n"


def _whole(part: _Part) -> str:
    before, after = _frame(part)
    return f"{before}{''.join(f'{row.text}{chr(10)}' for row in part.rows)}{after}"


def _fitted(part: _Part, room: int, command: str) -> str:
    """Return a part in at most so many bytes; it says how much it leaves out."""
    whole = _whole(part)
    if len(whole.encode()) <= room:
        return whole
    (before, after), left = _frame(part), sum(row.weight for row in part.rows)
    room -= len(f"{before}{after}{_left_out(left, part.noun, command)}".encode())
    lines = ""
    for row in part.rows:
        line = f"{row.text}\n"
        room -= len(line.encode())
        if room < 0:
            break
        lines += line
        left -= row.weight
    return f"{before}{lines}{_left_out(left, part.noun, command)}{after}"


def _left_out(number: int, noun: str, command: str) -> str:
    return f"\n… and {wording.counted(number, f'more {noun}')}; {code(command)} shows all.\n" if number else ""


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _plain_rows(lines: Iterable[str]) -> Sequence[_Row]:
    return [_Row(text=f"{'  ' * line.startswith(' ')}- {_signed(line.strip())}") for line in lines]


def _signed(line: str) -> str:
    """Return a line of a list; a sign at its beginning would make a list of its own."""
    sign, _, rest = line.partition(" ")
    return f"{code(sign)} {prose(rest)}" if sign in ("+", "-") else prose(line)


def _title(difference: Difference) -> str:
    if difference.faults:
        return "What does not compile has no effect that could be shown"
    touched, every = _numbers(difference)
    if not touched:
        return "No node is affected"
    clusters = {effect.cluster for effect in difference.effects}
    where = f"cluster {prose(*clusters)}" if len(clusters) == 1 else f"{len(clusters)} clusters"
    return f"{touched} of {wording.counted(every, 'node')} in {where} {'is' if touched == 1 else 'are'} affected"


def _numbers(difference: Difference) -> tuple[int, int]:
    """Return the number of nodes that are affected, and that of all nodes in their clusters, before or after."""
    touched = {(effect.cluster, name) for effect in difference.effects for name in effect.nodes}
    clusters = {effect.cluster for effect in difference.effects}
    every = sum(each.nodes for each in difference.clusters if each.cluster in clusters)
    # A cluster has the number of its nodes after the change, or of those that go with it.
    gone = {each.cluster for each in difference.clusters if each.is_gone}
    left = (effect for effect in difference.effects if effect.after is None and effect.cluster not in gone)
    return len(touched), every + sum(len(effect.nodes) for effect in left)


def _sums(difference: Difference) -> Iterator[str]:
    yield from diff_text.remarks(difference)
    if difference.effects:
        loss = effect_sentences.loss(difference.effects)
        touched, every = _numbers(difference)
        match every - touched:
            case others if others <= 0:
                yield loss
            case 1:
                yield f"On the other node neither driver nor device plugin changes. {loss}"
            case others:
                yield f"On the other {others} nodes neither driver nor device plugin changes. {loss}"


def _effects(difference: Difference, ranked: Sequence[ranking.Ranked]) -> Sequence[_Row]:
    return [
        _Row(
            text=_cells(
                f"**{_label(item)}**",
                _listed(_names(difference, item), most=_NAMES),
                prose(item.sentence.text),
            )
        )
        for item in ranked
    ]


_LABELS: Mapping[Work | None, str] = {
    "swaps": "driver swapped",
    "may-swap": "driver swapped if it differs",
    "reloads": "driver reloaded",
    "functions": "virtual functions changed",
}
"""What is done to a driver that is taken out of use."""


def _label(item: ranking.Ranked) -> str:
    known = ranking.CHANGES[item.change]
    return _LABELS.get(item.sentence.effects[0].work, known) if item.change == "swaps" else known


def _names(difference: Difference, item: ranking.Ranked) -> Sequence[str]:
    several = len(difference.clusters) > 1
    return [f"{cluster}/{name}" if several else name for cluster, name in item.sentence.nodes]


def _listed(names: Sequence[str], most: int | None = None) -> str:
    return wording.listed([*map(code, names[:most]), *names[most:]] if most else map(code, names), most=most)


def _nodes(difference: Difference, ranked: Sequence[ranking.Ranked]) -> Sequence[_Row]:
    """Return the nodes of the sentences whose row does not name all of them; sentences on the same nodes share them."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for item in ranked:
        names = tuple(_names(difference, item))
        if len(names) > _NAMES:
            shared.setdefault(names, []).append(item.sentence.text)
    rows: list[_Row] = []
    for names, sentences in shared.items():
        rows.append(_Row(text=f"{chr(10) if rows else ''}{prose(' '.join(sentences))}\n", weight=0))
        lines = [names[start : start + _LINE] for start in range(0, len(names), _LINE)]
        rows.extend(_Row(text=f"- {', '.join(map(code, line))}", weight=len(line)) for line in lines)
    return rows


def _risks(risks: Findings) -> Sequence[_Row]:
    ranks = {"error": 0, "warning": 1}
    ordered = sorted(risks, key=lambda item: ranks.get(item.severity, 2))
    return [
        _Row(
            text=f"- **{item.severity}** {code(item.code)}, {code(str(item.span))}: "
            + prose(" ".join((item.message, *item.notes, item.hint)).strip())
        )
        for item in ordered
    ]


def _accepted(accepted: Iterable[risk_groups.Group]) -> Iterator[_Row]:
    for group in accepted:
        yield _Row(text=f"- **accepted** {code(group.scope)}: {prose(group.text)}", weight=len(group.risks))


def _edits(changes: Sequence[DocumentChange]) -> Sequence[_Row]:
    found = []
    for change in changes:
        if change.action != "changed":
            was = f" was {code(wording.cut(change.old_name))}" if change.action == "renamed" else f" is {change.action}"
            what = f"{change.kind} {code(wording.cut(change.name)) if change.name else ''}".strip()
            found.append(_Row(text=_cells(code(str(change.span)), f"{what}{was}", "", "")))
        found.extend(
            _Row(
                text=_cells(
                    code(f"{field.span.file}:{field.span.line}"),
                    code(field.text),
                    *_values(field),
                )
            )
            for field in change.fields
        )
    return found


def _values(field: FieldChange) -> Iterator[str]:
    values = (field.old, field.new)
    for value, text in zip(values, diff_text.values(*values), strict=True):
        yield "" if value is None else code(text)


def _pods(difference: Difference) -> Sequence[_Row]:
    return [
        _Row(
            text=_cells(
                f"{kind} {code(name)}{prose(diff_text.where(difference, clusters))}",
                *(str(counts[fate] or "") for fate in ("created", "replaced", "deleted")),
            )
        )
        for kind, name, clusters, counts in diff_text.pod_groups(difference)
    ]


def _command(difference: Difference) -> str:
    words = ["kae", "diff", _word(difference.before.name)]
    if difference.after.commit is not None:
        words += ["--to", _word(difference.after.name)]
    return " ".join(words)


def _word(name: str) -> str:
    """Return the name of a revision for a shell, which takes the tilde for itself at the beginning only."""
    shown = wording.cut(name)
    return shown if re.fullmatch(r"[\w./-][\w./~-]*", shown, re.ASCII) else shlex.quote(shown)


def _foot(difference: Difference, command: str) -> str:
    return f"{code(command)}, from {code(difference.before.text)} to {code(difference.after.text)}"
