"""What the frame of programs refuses: paths of the node, labels of SELinux, and rights at the API server."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler import wording
from compiler.checks import host_paths, lists
from compiler.diagnostics import Diagnostic
from compiler.formats import documents, globs

Data = Mapping[str, Any]
Refusal = tuple[documents.Path, str, tuple[str, ...], str]
"""The path of what is refused, the message, the notes and the hint."""

_OPEN = ("device-plugins", "plugins_registry")
"""Folders of the kubelet in which a device plugin puts its socket."""

_SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "sh", "zsh")
_SHELL_FLAG = re.compile("-[a-z]*c")
_ANY_FLAG = re.compile("[-+][A-Za-z]*c[A-Za-z]*")

_READING = frozenset(("get", "list", "watch"))
_WRITING: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {
        ("", "events"): frozenset(("create", "patch", "update")),
        ("events.k8s.io", "events"): frozenset(("create", "patch", "update")),
        ("", "nodes/status"): frozenset(("get", "patch", "update")),
        ("nfd.k8s-sigs.io", "nodefeatures"): frozenset(("create", "update", "patch", "delete")),
        ("resource.k8s.io", "resourceslices"): frozenset(("create", "update", "patch", "delete")),
    }
)
"""What a program may write: what it says of its node, and nothing by which anybody gains a right."""
_NODE_STATUS = "nodes/status"
_RIGHTS = (
    "A program may get, list and watch what is no Secret and no part of an object, and write events, NodeFeatures and "
    "ResourceSlices."
)


def of_pod(pod: Data, kubelet: str) -> Iterator[Refusal]:
    """Yield what is refused of a pod whose references are filled; paths are those of the filled pod."""
    for index, volume in enumerate(pod.get("volumes", ())):
        if "hostPath" in volume:
            yield from host_path(("volumes", index, "hostPath", "path"), volume["hostPath"]["path"], kubelet)
    if pod.get("hostPID") and pod.get("shareProcessNamespace"):
        # `validatePodSpec` of the API server refuses both.
        message = "A pod with hostPID has the processes of its containers among the node's."
        yield ("shareProcessNamespace",), message, (), "Leave one of the two out."
    for path, holder in (((), pod), *lists.containers((), pod)):
        label = holder.get("securityContext", {}).get("seLinuxOptions", {})
        if label.get("type") == "spc_t":
            at = (*path, "securityContext", "seLinuxOptions", "type")
            yield at, "A program may not run as 'spc_t'.", (), "Name a type that confines it, or leave it out."


def finding(source: documents.Document, refusal: Refusal, *notes: str) -> Diagnostic:
    """Return the finding on what is refused; `notes` come behind its own."""
    place, message, own, hint = refusal
    return Diagnostic(
        code="privilege-refused", span=source.span(*place), message=message, notes=(*own, *notes), hint=hint
    )


def host_path(place: documents.Path, path: str, kubelet: str, *, of_program: bool = True) -> Iterator[Refusal]:
    """Yield why a path of the node is refused: it leads to something that no program gets, or is around it.

    A program alone may have the kubelet's folders for sockets of plugins.
    """
    real = globs.normal(path).removesuffix("/")
    if of_program and _is_open(real, kubelet):
        return
    found = host_paths.leads_to(real, kubelet)
    if found is not None:
        message = f"A program may not have '{path}' of the node."
        notes = (*((f"It is '{real or '/'}'.",) if real != path and real else ()), *found)
        yield place, message, notes, "Name the folders and files themselves that it needs."


def _is_open(path: str, kubelet: str) -> bool:
    rest = path.removeprefix(f"{kubelet}/")
    parts = rest.split("/")
    # Below plugins/kubernetes.io are the volumes of all pods.
    is_own = parts[0] == "plugins" and len(parts) > 1 and not globs.share_name(parts[1], "kubernetes.io")
    return rest != path and (parts[0] in _OPEN or is_own)


def of_rules(path: documents.Path, rules: Any, *, writes_status: bool) -> Iterator[Refusal]:
    """Yield the rights that no program has; every other one than those of a list is."""
    for index, rule in enumerate(rules):
        for group in rule["apiGroups"]:
            for number, resource in enumerate(rule["resources"]):
                refused = [
                    verb
                    for verb in rule["verbs"]
                    if "${" not in verb and not _may(group, resource, verb, rule, writes_status)
                ]
                if refused:
                    at = (*path, index, "resources", number)
                    name = f"{resource}.{group}" if group else resource
                    message = f"A program may not {wording.listed(refused)} {name}."
                    hint = _RIGHTS
                    if resource == _NODE_STATUS and not group:
                        hint = "Write nodeStatus: true beside the rules, if it has to write there; people then see it."
                    yield at, message, (), hint


def _may(group: str, resource: str, verb: str, rule: Data, writes_status: bool) -> bool:
    if "*" in (group, resource, verb):
        return False
    if (group, resource) == ("", _NODE_STATUS) and not writes_status:
        return False
    if verb in _WRITING.get((group, resource), ()):
        return True
    return verb in _READING and "/" not in resource and (group, resource) != ("", "secrets")


def is_shell(word: str) -> bool:
    """Return whether a word of a command names a shell."""
    return posixpath.basename(word) in _SHELLS


def is_flag(word: str, *, of_shell: bool) -> bool:
    """Return whether a word has a shell, which with `of_shell` is named before, read a later word as a program."""
    return (_ANY_FLAG if of_shell else _SHELL_FLAG).fullmatch(word) is not None
