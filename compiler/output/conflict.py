"""The marks that git leaves in a file that two branches changed, in the styles merge, diff3 and zdiff3.

A mark is seven characters long (gitattributes(5), conflict-marker-size). In the common ancestor that diff3 shows, marks
of an earlier conflict are longer.
"""

from typing import Literal

_Part = Literal["both", "ours", "ancestor", "theirs"]

_NEXT: dict[tuple[_Part, bytes], _Part] = {
    ("both", b"<<<<<<<"): "ours",
    ("ours", b"|||||||"): "ancestor",
    ("ours", b"======="): "theirs",
    ("ancestor", b"======="): "theirs",
    ("theirs", b">>>>>>>"): "both",
}


def sides(content: bytes) -> tuple[bytes, ...]:
    """Return our and their side of a file in conflict; the content alone if it is in none."""
    if b"<<<<<<<" not in content:
        return (content,)
    ours, theirs = bytearray(), bytearray()
    part: _Part = "both"
    marks = 0
    for line in content.splitlines(keepends=True):
        following = _NEXT.get((part, line[:7])) if line[7:8] in b" \r\n" else None
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
