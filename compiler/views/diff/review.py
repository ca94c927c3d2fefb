"""The difference between two revisions for code hosts: the comment of a pull request, and notes on lines.

In the comment the most dangerous comes first, and it is never too long. Words of documents are neither markup nor a
mention in the markdown of GitHub and GitLab: a character reference is never markup. Yet code hosts look for mentions,
references and links in the text that comes of it, so a space without a width follows.
https://spec.commonmark.org/0.31.2/#entity-and-numeric-character-references
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from compiler import diagnostic_formats, repeats, wording
from compiler.changes.difference import Difference
from compiler.changes.effects import Effect
from compiler.changes.intent import DocumentChange, FieldChange
from compiler.diagnostics import Diagnostic, Findings, Span, merged
from compiler.views.diff import risk_groups, sentences
from compiler.views.diff import text as diff_text

LIMIT = 65_000
"""Bytes, and so characters, of a comment. GitHub refuses one of more than 65,536 characters; who posts it adds some."""

_NAMES = 3
"""Nodes that a row of the table on top names."""

_LINE = 20
"""Nodes on a line of the folded list."""

_SENTENCES = 5
"""Sentences of a note."""

_MARKUP = frozenset("\\`*_[]<>|")
_REFERENCES = frozenset("&@#!~$%^")
_NO_SPACE = "&#8203;"


class _Row(NamedTuple):
    text: str
    weight: int = 1
    """The number of things that it shows, of which it is told how many are left out."""


class _Part(NamedTuple):
    """A part of the comment, which is cut where it is too long."""

    noun: str
    rows: Sequence[_Row]
    head: str = ""
    title: str = ""
    """The line that stands for a part that is folded; empty for one that is not."""

    def around(self, lines: str) -> str:
        if not self.title:
            return f"\n{self.head}{lines}"
        return f"\n<details><summary>{self.title}</summary>\n\n{self.head}{lines}\n</details>\n"

    def whole(self) -> str:
        return self.around("".join(f"{row.text}\n" for row in self.rows))


def comment(
    difference: Difference,
    risks: Findings = (),
    accepted: Iterable[risk_groups.Group] = (),
    forecast: Sequence[str] = (),
) -> str:
    """Return the comment on a difference; empty where nothing differs.

    `accepted` are risks that are not in `risks`, `forecast` are sentences on how the rollout goes.
    """
    if difference.is_empty:
        return ""
    command = code(_command(difference))
    top = f"### {_title(difference)}\n"
    end = f"\n{command}, from {code(difference.before.text)} to {code(difference.after.text)}\n"
    told = [_Part("sentence", [_Row(prose(" ".join(forecast)))] if forecast else [])]
    parts = [part for part in _parts(difference, risks, accepted, told) if part.rows]
    rooms = _rooms([len(part.whole().encode()) for part in parts], LIMIT - len(f"{top}{end}".encode()))
    body = "".join(_fitted(part, room, command) for part, room in zip(parts, rooms, strict=True))
    return f"{top}{body}{end}"


def _rooms(sizes: Sequence[int], room: int) -> Sequence[int]:
    """Return the bytes for each part: equal ones for all that are too long, which share what the short ones leave."""
    rooms = dict.fromkeys(range(len(sizes)), 0)
    for rank, index in enumerate(sorted(rooms, key=sizes.__getitem__)):
        rooms[index] = min(sizes[index], room // (len(sizes) - rank))
        room -= rooms[index]
    return tuple(rooms.values())


def _fitted(part: _Part, room: int, command: str) -> str:
    """Return a part in at most so many bytes; it says how much it leaves out."""
    whole = part.whole()
    if len(whole.encode()) <= room:
        return whole
    left, lines = sum(row.weight for row in part.rows), ""
    room -= len(part.around(_left_out(left, part.noun, command)).encode())
    for row in part.rows:
        room -= len(f"{row.text}\n".encode())
        if room < 0:
            break
        lines += f"{row.text}\n"
        left -= row.weight
    return part.around(lines + _left_out(left, part.noun, command))


def _left_out(number: int, noun: str, command: str) -> str:
    return f"\n… and {wording.counted(number, f'more {noun}')}; {command} shows all.\n" if number else ""


def _parts(
    difference: Difference, risks: Findings, accepted: Iterable[risk_groups.Group], told: Iterable[_Part]
) -> Iterator[_Part]:
    ranked = sentences.by_danger(difference.effects)
    several = len(difference.clusters) > 1
    nodes = [tuple(sentence.names(with_clusters=several)) for sentence in ranked]
    yield _Part("line", _list(diff_text.faults(difference)))
    yield _Part("sentence", [*map(_effect, ranked, nodes)], _table("effect", "nodes", "what happens"))
    yield _Part("sentence", [_Row(f"**{prose(line)}**") for line in _sums(difference)])
    yield from told
    yield _Part("risk", [*_risks(risks), *_accepted(accepted)], "**Risks**\n\n")
    yield _folded("Privileges", "line", _list(diff_text.privileges(difference)))
    yield _folded("Nodes", "node", _nodes(ranked, nodes))
    edits = [*_edits(difference.intent)]
    yield _folded("Edits", "edit", edits, _table("line", "field", "before", "after"))
    yield _folded("Pods", "workload", [*_pods(difference)], _table("workload", "created", "replaced", "deleted"))
    yield _folded("Objects", "line", _list(diff_text.objects(difference)))


def _folded(title: str, noun: str, rows: Sequence[_Row], head: str = "") -> _Part:
    number = "" if noun == "line" else f" ({sum(row.weight for row in rows)})"
    return _Part(noun, rows, head, f"{title}{number}")


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def _cells(*cells: str) -> _Row:
    return _Row(f"| {' | '.join(cells)} |")


def _list(lines: Iterable[str]) -> Sequence[_Row]:
    return [_Row(f"{'  ' * line.startswith(' ')}- {_signed(line.strip())}") for line in lines]


def _signed(line: str) -> str:
    """Return a line of a list; a sign at its beginning would make a list of its own."""
    sign, _, rest = line.partition(" ")
    return f"{code(sign)} {prose(rest)}" if sign in ("+", "-") else prose(line)


def _title(difference: Difference) -> str:
    if difference.faults:
        return "What does not compile has no effect that could be shown"
    touched, every = _numbers(difference)
    if not touched:
        return "What this does to nodes is not known" if any(diff_text.unknown(difference)) else "No node is affected"
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
    leaving = (effect for effect in difference.effects if effect.after is None and effect.cluster not in gone)
    left = {(effect.cluster, name) for effect in leaving for name in effect.nodes}
    return len(touched), every + len(left)


def _sums(difference: Difference) -> Iterator[str]:
    yield from diff_text.remarks(difference)
    if difference.effects:
        touched, every = _numbers(difference)
        touched += difference.barred
        others = "node" if every - touched == 1 else f"{every - touched} nodes"
        same = f"On the other {others} neither driver nor device plugin changes. " if every > touched else ""
        yield f"{same}{sentences.loss(difference.effects, difference.barred)}"
    yield from diff_text.unknown(difference)


def _effect(sentence: sentences.Sentence, nodes: Sequence[str]) -> _Row:
    named = wording.listed([*map(code, nodes[:_NAMES]), *nodes[_NAMES:]], most=_NAMES)
    return _cells(f"**{sentence.label}**", named, prose(sentence.text))


def _nodes(ranked: Sequence[sentences.Sentence], nodes: Sequence[tuple[str, ...]]) -> Sequence[_Row]:
    """Return the nodes of the sentences whose row does not name all of them; sentences on the same nodes share them."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for sentence, names in zip(ranked, nodes, strict=True):
        if len(names) > _NAMES:
            shared.setdefault(names, []).append(sentence.text)
    rows: list[_Row] = []
    for names, texts in shared.items():
        rows.append(_Row(f"{chr(10) if rows else ''}{prose(' '.join(texts))}\n", weight=0))
        lines = [names[start : start + _LINE] for start in range(0, len(names), _LINE)]
        rows.extend(_Row(f"- {', '.join(map(code, line))}", weight=len(line)) for line in lines)
    return rows


def _risks(risks: Findings) -> Iterator[_Row]:
    for item in sorted(risks, key=lambda item: item.severity != "error"):
        said = prose(" ".join((item.message, *item.notes, item.hint)).strip())
        yield _Row(f"- **{item.severity}** {code(item.code)}, {code(str(item.span))}: {said}")


def _accepted(accepted: Iterable[risk_groups.Group]) -> Iterator[_Row]:
    for group in accepted:
        yield _Row(f"- **accepted** {code(group.scope)}: {prose(group.text)}", weight=len(group.risks))


def _edits(changes: Sequence[DocumentChange]) -> Iterator[_Row]:
    for change in changes:
        if change.action != "changed":
            was = f" was {code(wording.cut(change.old_name))}" if change.action == "renamed" else f" is {change.action}"
            what = f"{change.kind} {code(wording.cut(change.name)) if change.name else ''}".strip()
            yield _cells(code(str(change.span)), f"{what}{was}", "", "")
        for field in change.fields:
            yield _cells(code(f"{field.span.file}:{field.span.line}"), code(field.text), *_values(field))


def _values(field: FieldChange) -> Iterator[str]:
    values = (field.old, field.new)
    for value, text in zip(values, diff_text.values(*values), strict=True):
        yield "" if value is None else code(text)


def _pods(difference: Difference) -> Iterator[_Row]:
    for kind, name, clusters, counts in diff_text.pod_groups(difference):
        workload = f"{kind} {code(name)}{prose(diff_text.where(difference, clusters))}"
        yield _cells(workload, *(str(counts[fate] or "") for fate in ("created", "replaced", "deleted")))


def _command(difference: Difference) -> str:
    words = ["kae", "diff", _word(difference.before.name)]
    if difference.after.commit is not None:
        words += ["--to", _word(difference.after.name)]
    return " ".join(words)


def _word(name: str) -> str:
    """Return the name of a revision for a shell, which takes the tilde for itself at the beginning only."""
    shown = wording.cut(name)
    return shown if re.fullmatch(r"[\w./-][\w./~-]*", shown, re.ASCII) else shlex.quote(shown)


def notes(difference: Difference) -> Sequence[diagnostic_formats.Note]:
    """Return a note for each line that has effects on nodes, those that take most away first; then those on the past.

    An error of the earlier side is no error of the change, and its line may be another one by now.
    """
    causes: dict[Span, dict[Effect, None]] = {}
    for sentence in sentences.by_danger(difference.effects):
        for effect in sentence.effects:
            causes.setdefault(effect.cause, {})[effect] = None
    effects = [("effect", span, _note([*own])) for span, own in causes.items()]
    said = f"{difference.before.text} does not compile, so what the change does is not known."
    errors = merged(item for fault in difference.faults if fault.side == "from" for item in fault.findings)
    past = [("earlier-error", item.span, f"{said}\n{diagnostic_formats.sentences(item)}") for item in errors]
    return [diagnostic_formats.Note(code=each, span=span, text=text) for each, span, text in (*effects, *past)]


def _note(effects: Sequence[Effect]) -> str:
    texts = [sentence.text for sentence in sentences.by_danger(effects)]
    more = len(texts) - _SENTENCES
    return "\n".join((*texts[:_SENTENCES], *([f"And {more} more; `kae diff` shows all."] if more > 0 else [])))


def by_line(found: Findings) -> Findings:
    """Return one finding for each code and place, as code hosts show ten of a kind; others there are its notes."""
    places = repeats.grouped(((finding.code, finding.span), finding) for finding in found)
    return tuple(_joined(*own) for own in places.values())


def _joined(first: Diagnostic, *others: Diagnostic) -> Diagnostic:
    if not others:
        return first
    notes = (*first.notes, first.hint, *map(diagnostic_formats.sentences, others))
    return first._replace(notes=tuple(filter(None, notes)), hint="")


def prose(text: str) -> str:
    """Return a text on one line in which nothing is markup, a mention, a reference or a link."""
    escaped = "".join(map(_reference, wording.escaped(text)))
    return escaped.replace("://", f":{_NO_SPACE}//").replace("www.", f"www{_NO_SPACE}.")


def _reference(character: str) -> str:
    if character in _REFERENCES:
        return f"&#{ord(character)};{_NO_SPACE}"
    return f"&#{ord(character)};" if character in _MARKUP else character


def code(text: str) -> str:
    """Return a text on one line as code, in which code hosts look for nothing, in a table too."""
    shown = wording.escaped(text)
    if shown == shown.strip() != "" and not {"`", "|"} & set(shown):
        return f"`{shown}`"
    # A code span would end at a grave accent, and a cell of a table at a bar.
    return "<code>" + "".join(f"&#{ord(one)};" if not one.isalnum() else one for one in shown) + "</code>"
