"""Kernels, and what mappings say of them: patterns of RE2, judged and matched by RE2 itself.

NFD evaluates the same patterns with Go's regexp, and the driver installer with RE2 again.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from compiler.model import driver

FULL_VERSION = "${KERNEL_FULL_VERSION}"
XYZ = "${KERNEL_XYZ}"
"""What an image's name may hold of the kernel, as in the Kernel Module Management operator:
https://kmm.sigs.k8s.io/documentation/deploy_kmod/"""

_PLACEHOLDER = "${KERNEL_"
_UNKNOWN_TO_GO = re.compile(r"(?<!\\)(\\\\)*\\C")
"""RE2's any byte: https://pkg.go.dev/regexp/syntax does not know it."""

_META = frozenset(r"\.+*?()|[]{}^$")
_BEFORE = re.compile(r"\\[bBA]|\^|\(\?")
_AFTER = re.compile(r"\\[bBzZ]|[$]|\(\?")
"""What makes a match depend on the text before it, or after it, or on flags."""


def cleaned(version: str) -> str:
    """A kernel's full version as NFD reports it: what a label cannot hold is `_`, or gone from the ends."""
    return re.sub(r"[^-A-Za-z0-9_.]", "_", version).strip("-_.")


def named_in(component: driver.Driver) -> bool:
    """Whether the image's name differs from kernel to kernel."""
    return _PLACEHOLDER in component.version or _PLACEHOLDER in component.image


def filled(text: str, kernel: str) -> str:
    """A part of an image's name for one kernel, given as `cleaned` answers."""
    numbers = re.match(r"[0-9]+(\.[0-9]+){0,2}", kernel)
    return text.replace(FULL_VERSION, kernel).replace(XYZ, numbers[0] if numbers else kernel)


def pattern(mapping: driver.KernelMapping) -> str:
    """The mapping as a pattern; for a literal one that is found in this version alone."""
    if mapping.regexp is not None:
        return mapping.regexp
    return exactly(cleaned(mapping.literal or ""))


def exactly(kernel: str) -> str:
    """The pattern that is found in this kernel's full version alone."""
    return f"^{re.escape(kernel)}$"


def fault(regexp: str) -> str | None:
    """Why NFD could not use the pattern; None when it can."""
    return _judged(regexp)[1]


def is_found(regexp: str, kernel: str) -> bool:
    """Whether the pattern is found somewhere in the kernel's version; one with a fault is found nowhere."""
    compiled, why = _judged(regexp)
    return why is None and compiled.search(kernel) is not None


@functools.lru_cache(maxsize=4096)
def _judged(regexp: str) -> tuple[Any, str | None]:
    """The pattern as RE2 compiles it, or why it cannot be used."""
    if _UNKNOWN_TO_GO.search(regexp):
        return None, r"\C, any byte, is unknown to NFD"
    import re2  # noqa: PLC0415 - only fleets with mappings need it

    options = re2.Options()
    options.log_errors = False  # What it thinks of a pattern is ours to say.
    try:
        return re2.compile(regexp, options), None
    except re2.error as error:
        said = error.args[0]
        return None, said.decode() if isinstance(said, bytes) else str(said)


def first(mappings: Sequence[driver.KernelMapping], kernel: str) -> driver.KernelMapping | None:
    """The mapping that takes a kernel, given as `cleaned` answers; None when no mapping does."""
    return next((mapping for mapping in mappings if is_found(pattern(mapping), kernel)), None)


def shadowed(mappings: Sequence[driver.KernelMapping]) -> Iterator[tuple[int, int]]:
    """Mappings that can never win, each with an earlier one that takes every kernel that it could take.

    Only what is certain is told: of a literal, of an equal pattern, of a pattern after one that is found everywhere,
    and of plain text, perhaps behind ^ or before $, in which an earlier pattern is found wherever it stands.
    """
    for later, mapping in enumerate(mappings):
        for earlier, other in enumerate(mappings[:later]):
            if _covers(other, mapping):
                yield later, earlier
                break


def _covers(earlier: driver.KernelMapping, later: driver.KernelMapping) -> bool:
    if later.literal is not None:
        return is_found(pattern(earlier), cleaned(later.literal))
    if earlier.regexp is None or later.regexp is None:
        return False
    if earlier.regexp == later.regexp or earlier.regexp in (".*", "^.*", ".*$", "^.*$", ".", ".+", "^", "$"):
        return True
    begins, text, ends = _parts(later.regexp)
    if any(char in _META for char in text):  # What all of its matches hold is unknown.
        begins, text, ends = False, "", False
    if (not begins and _BEFORE.search(earlier.regexp)) or (not ends and _AFTER.search(earlier.regexp)):
        return False
    return is_found(earlier.regexp, text.translate(_SHOWN))


def _parts(regexp: str) -> tuple[bool, str, bool]:
    """Whether a pattern begins with ^, what stands between, with escaped characters hidden, whether it ends with $."""
    text = re.sub(r"\\([^A-Za-z0-9])", lambda found: found[1].translate(_HIDDEN), regexp.removeprefix("^"))
    return regexp.startswith("^"), text.removesuffix("$"), text.endswith("$")


_HIDDEN = {ord(char): 0xE000 + ord(char) for char in map(chr, range(128))}
_SHOWN = {hidden: char for char, hidden in _HIDDEN.items()}
