"""Kernel versions, and the RE2 patterns of kernel mappings.

NFD matches the same patterns with Go's regexp, and the driver installer with RE2.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from compiler.fleet import definitions
from compiler.inventory import snapshot

FULL_VERSION = "${KERNEL_FULL_VERSION}"
XYZ = "${KERNEL_XYZ}"
"""Placeholders in the names of images, as in the Kernel Module Management operator:
https://kmm.sigs.k8s.io/documentation/deploy_kmod/"""

_PLACEHOLDER = "${KERNEL_"
_UNKNOWN_TO_GO = re.compile(r"(?<!\\)(\\\\)*\\C")
"""RE2's any byte, which https://pkg.go.dev/regexp/syntax does not know."""

_META = frozenset(r"\.+*?()|[]{}^$")
_BEFORE = re.compile(r"\\[bBA]|\^|\(\?")
_AFTER = re.compile(r"\\[bBzZ]|[$]|\(\?")
"""Syntax that makes a match depend on the text before it, or after it, or on flags."""


SYSTEM, VERSION = (f"feature.node.kubernetes.io/system-os_release.{name}" for name in ("ID", "VERSION_ID"))
"""NFD's labels with the operating system of a node: https://nfd.sigs.k8s.io/usage/features#system"""


class Machine(NamedTuple):
    """What mappings ask of a node."""

    kernel: str
    """As `cleaned` returns it."""
    system: str = ""
    """ID and VERSION_ID of its operating system; empty where NFD has not told them."""
    version: str = ""


def machine(profile: snapshot.Profile) -> Machine:
    """Return what mappings ask of the nodes of a profile."""
    labels = profile.labels
    return Machine(cleaned(profile.kernel_version), labels.get(SYSTEM, ""), labels.get(VERSION, ""))


def cleaned(version: str) -> str:
    """Return a kernel's full version as NFD reports it: `_` for what a label cannot hold, and nothing at the ends."""
    return re.sub(r"[^-A-Za-z0-9_.]", "_", version).strip("-_.")


def is_named(parts: definitions.ImageParts) -> bool:
    """Return whether an image is named after the kernel."""
    return any(_PLACEHOLDER in text for text in parts.values())


def filled(text: str, kernel: str) -> str:
    """Return a part of an image's name with its placeholders filled for a kernel, given as `cleaned` returns it."""
    numbers = re.match(r"[0-9]+(\.[0-9]+){0,2}", kernel)
    return text.replace(FULL_VERSION, kernel).replace(XYZ, numbers[0] if numbers else kernel)


def numbers(kernel: str) -> dict[str, str]:
    """Return the first three numbers of a kernel's version by the names that references have; none without a number."""
    read = re.match(r"[0-9]+(\.[0-9]+){0,2}", kernel)
    if read is None:
        return {}
    found = re.findall("[0-9]+", read[0])
    return {f"kernel.{name}": number for name, number in zip("xyz", (*found, "0", "0", "0"), strict=False)}


def pattern(mapping: definitions.KernelMapping) -> str:
    """Return the pattern of a mapping; for a literal, one that matches this version alone."""
    if mapping.regexp is not None:
        return mapping.regexp
    return exactly(cleaned(mapping.literal or ""))


def exactly(kernel: str) -> str:
    """Return the pattern that matches this full version alone."""
    return f"^{re.escape(kernel)}$"


def fault(regexp: str) -> str | None:
    """Return why NFD cannot use a pattern; None if it can."""
    return _judged(regexp)[1]


def is_found(regexp: str, kernel: str) -> bool:
    """Return whether a pattern matches somewhere in a kernel's version; a pattern with a fault never does."""
    compiled, why = _judged(regexp)
    return why is None and compiled.search(kernel) is not None


@functools.lru_cache(maxsize=4096)
def _judged(regexp: str) -> tuple[Any, str | None]:
    """Return the pattern as RE2 compiles it, or why it cannot be used."""
    if _UNKNOWN_TO_GO.search(regexp):
        return None, r"\C, any byte, is unknown to NFD"
    import re2  # noqa: PLC0415 - only fleets with mappings need it

    options = re2.Options()
    options.log_errors = False  # A finding reports the error.
    try:
        return re2.compile(regexp, options), None
    except re2.error as error:
        reason = error.args[0]
        return None, reason.decode() if isinstance(reason, bytes) else str(reason)


def first(mappings: Sequence[definitions.KernelMapping], machine: Machine) -> definitions.KernelMapping | None:
    """Return the mapping that takes a node; None if no mapping does."""
    return next((one for one in mappings if is_found(pattern(one), machine.kernel) and _is_of(one.os, machine)), None)


def _is_of(system: definitions.System | None, machine: Machine) -> bool:
    if system is None:
        return True
    return machine.system == system.id and (not system.versions or machine.version in system.versions)


def possible(mappings: Sequence[definitions.KernelMapping], kernel: str) -> Iterator[definitions.KernelMapping]:
    """Yield the mappings that take nodes with a kernel, given as `cleaned` returns it, whatever their system is."""
    earlier: list[definitions.KernelMapping] = []
    for mapping in mappings:
        if is_found(pattern(mapping), kernel) and not any(holds(one.os, mapping.os) for one in earlier):
            yield mapping
            earlier.append(mapping)


def holds(system: definitions.System | None, other: definitions.System | None) -> bool:
    """Return whether every node of the other operating system is one of this one; None stands for all of them."""
    if system is None or other is None:
        return system is None
    if system.id != other.id or not system.versions:
        return system.id == other.id
    return bool(other.versions) and set(other.versions) <= set(system.versions)


def system(stated: definitions.System | None) -> str:
    """Return how a sentence about kernels goes on to name an operating system; nothing for any."""
    return f" on {' '.join((stated.id, ' or '.join(stated.versions))).rstrip()}" if stated else ""


def of_system(stated: definitions.System | None) -> dict[str, str]:
    """Return what all nodes of an operating system have in common, by the names that references have."""
    if stated is None:
        return {}
    return {"os.id": stated.id, **({"os.version": stated.versions[0]} if len(stated.versions) == 1 else {})}


def said(mappings: Sequence[definitions.KernelMapping], machine: Machine) -> str:
    """Return a node's kernel in words, and its operating system where a mapping asks for it."""
    kernel = machine.kernel or "(unknown)"
    if not any(mapping.os for mapping in mappings):
        return kernel
    return f"{kernel} on {' '.join((machine.system, machine.version)).strip() or 'an unknown system'}"


def shadowed(mappings: Sequence[definitions.KernelMapping]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of mappings that take no kernel, each with an earlier one that takes all of theirs.

    Only certain cases are found: a literal, an equal pattern, a pattern after one that matches everything, and plain
    text, perhaps after ^ or before $, that an earlier pattern matches in any surroundings.
    """
    for later, mapping in enumerate(mappings):
        for earlier, other in enumerate(mappings[:later]):
            if _covers(other, mapping):
                yield later, earlier
                break


def _covers(earlier: definitions.KernelMapping, later: definitions.KernelMapping) -> bool:
    if not holds(earlier.os, later.os):
        return False
    if later.literal is not None:
        return is_found(pattern(earlier), cleaned(later.literal))
    if earlier.regexp is None or later.regexp is None:
        return False
    if earlier.regexp == later.regexp or earlier.regexp in (".*", "^.*", ".*$", "^.*$", ".", ".+", "^", "$"):
        return True
    begins, text, ends = _parts(later.regexp)
    if any(char in _META for char in text):  # Its matches have no known text in common.
        begins, text, ends = False, "", False
    if (not begins and _BEFORE.search(earlier.regexp)) or (not ends and _AFTER.search(earlier.regexp)):
        return False
    return is_found(earlier.regexp, text.translate(_SHOWN))


def _parts(regexp: str) -> tuple[bool, str, bool]:
    """Split a pattern: whether it begins with ^, the text with escaped characters hidden, whether it ends with $."""
    text = re.sub(r"\\([^A-Za-z0-9])", lambda match: match[1].translate(_HIDDEN), regexp.removeprefix("^"))
    return regexp.startswith("^"), text.removesuffix("$"), text.endswith("$")


_HIDDEN = {ord(char): 0xE000 + ord(char) for char in map(chr, range(128))}
_SHOWN = {hidden: char for char, hidden in _HIDDEN.items()}
