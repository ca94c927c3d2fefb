"""Words of documents in the markdown of GitHub and GitLab, where they may be neither markup nor a mention.

A character reference is never markup: https://spec.commonmark.org/0.31.2/#entity-and-numeric-character-references
Yet code hosts look for mentions, references and links in the text that comes of it, so a space without a width follows.
"""

from compiler import wording

_MARKUP = frozenset("\\`*_[]<>|")
_REFERENCES = frozenset("&@#!~$%^")
_NO_SPACE = "&#8203;"


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
