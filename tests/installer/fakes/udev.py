"""The fake udev: it sets the modes of entries' nodes, by the rule files of the host."""

import os

from tests.installer.fakes import disk

_FOLDERS = ("usr/lib/udev/rules.d", "run/udev/rules.d", "etc/udev/rules.d")
"""udev(7): a file of a later one replaces the file of the same name."""


def apply(host: disk.Disk, action: str, *entries: str) -> None:
    """Gives nodes the MODE, and the GROUP if it is a number, of the last rule that selects them.

    All nodes where none are named.

    Rules are selected by SUBSYSTEM, KERNEL and ACTION; one that asks for anything else selects nothing here.
    """
    files = {name: folder for folder in _FOLDERS for name in host.names(folder) if name.endswith(".rules")}
    rules = [rule for name, folder in sorted(files.items()) for rule in _rules(host.text(f"{folder}/{name}"))]
    for entry in entries or host.names("sys/class/uacce"):
        facts = {"SUBSYSTEM": "uacce", "KERNEL": entry, "ACTION": action}
        modes = [rule["MODE="] for rule in rules if "MODE=" in rule and _selects(rule, facts)]
        if modes and host.exists(f"dev/{entry}"):
            os.chmod(host.at(f"dev/{entry}"), int(modes[-1], 8))  # noqa: PTH101 - pathlib is slow to import
        groups = [rule["GROUP="] for rule in rules if "GROUP=" in rule and _selects(rule, facts)]
        if groups and groups[-1].isdecimal() and host.exists(f"dev/{entry}"):
            os.chown(host.at(f"dev/{entry}"), -1, int(groups[-1]))


def _rules(text: str) -> list[dict[str, str]]:
    lines = (line.strip() for line in text.replace("\\\n", "").splitlines())
    return [_rule(line) for line in lines if line and not line.startswith("#")]


def _rule(line: str) -> dict[str, str]:
    """Keys with their operators (a final := as =), and values without quotes."""
    found = {}
    for part in line.split(","):
        key, quote, value = part.strip().partition('"')
        if quote:
            found[key.replace(" ", "").replace(":=", "=")] = value.rstrip('" ')
    return found


def _selects(rule: dict[str, str], facts: dict[str, str]) -> bool:
    for key, wanted in rule.items():
        if key.endswith("=="):
            fact = facts.get(key.removesuffix("=="))
            if fact is None or not any(_fits(fact, pattern) for pattern in wanted.split("|")):
                return False
    return True


def _fits(fact: str, pattern: str) -> bool:
    start, star, _ = pattern.partition("*")
    return fact.startswith(start) if star else fact == pattern
