"""Rules of the API server and of kubelets for pods that no schema has, judged on a pod whose references are filled.

See `ValidatePodSpec` in Kubernetes' core validation (pkg/apis/core/validation).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import wording
from compiler.checks import containers, lists
from compiler.fleet import pods
from compiler.formats import documents
from compiler.rendering import privileges

Data = Mapping[str, Any]
Container = tuple[documents.Path, Data]


def faults(pod: Data) -> Iterator[containers.Fault]:
    """Yield why no API server takes a pod, or no kubelet runs it."""
    for index, volume in enumerate(pod.get("volumes", ())):
        yield from _of_volume(("volumes", index), volume)
    every: list[Container] = list(lists.containers((), pod))
    for path, container in every:
        yield from _of_mounts(path, container)
        yield from _of_ports(path, container)
        yield from _of_lists(path, container)
        yield from _of_probes(path, container)
        yield from _of_rights(path, container, pod.get("securityContext", {}))
        yield from _of_amounts(path, container)
    if pod.get("hostNetwork"):
        yield from _of_host_ports(every)


_KEEP = "Keep one of the two, or choose by `when` between them."
_BACK = ".."
_FORWARD = "A path that leads back is refused: write where it leads."


def _leads_back(path: str) -> bool:
    return _BACK in path.split("/")


def _of_volume(path: documents.Path, volume: Data) -> Iterator[containers.Fault]:
    if "hostPath" in volume and _leads_back(volume["hostPath"]["path"]):
        message = f"'{volume['hostPath']['path']}' has '..', which no path of a host may have."
        yield containers.Fault((*path, "hostPath", "path"), message, _FORWARD)
    size = volume.get("emptyDir", {}).get("sizeLimit", 0)
    if pods.amount_of(size) is None:
        yield _not_an_amount((*path, "emptyDir", "sizeLimit"), size)
    for index, file in enumerate(volume.get("downwardAPI", {}).get("items", ())):
        at, field = (*path, "downwardAPI", "items", index), file["fieldRef"]["fieldPath"]
        yield from _inner((*at, "path"), file["path"])
        if not field.startswith("metadata."):
            message = f"No file can hold '{field}'."
            hint = "A variable can: write it into `env`, with valueFrom."
            yield containers.Fault((*at, "fieldRef", "fieldPath"), message, hint)


def _not_an_amount(path: documents.Path, amount: object) -> containers.Fault:
    return containers.Fault(
        path, f"'{amount}' is not a quantity that Kubernetes can read.", "Write one such as 2, 500m or 1Gi."
    )


def _inner(path: documents.Path, text: str) -> Iterator[containers.Fault]:
    """Yield why a text is no path in a volume."""
    if text.startswith("/"):
        yield containers.Fault(
            path, f"'{text}' is absolute, and a path in a volume is not.", "Remove the '/' at its beginning."
        )
    if _leads_back(text):
        yield containers.Fault(path, f"'{text}' has '..', which no path in a volume may have.", _FORWARD)


def _of_mounts(path: documents.Path, container: Data) -> Iterator[containers.Fault]:
    seen = set[str]()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at, place = (*path, "volumeMounts", index), mount["mountPath"]
        if place in seen:
            message = f"Container '{container['name']}' mounts two volumes at '{place}'."
            yield containers.Fault((*at, "mountPath"), message, _KEEP)
        seen.add(place)
        yield from _inner((*at, "subPath"), mount.get("subPath", ""))
    folder = container.get("workingDir", "/")
    if not folder.startswith("/"):
        yield containers.Fault((*path, "workingDir"), f"'{folder}' is not an absolute path.", "Begin it with '/'.")


_PORT = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_PORT = 15


def _of_ports(path: documents.Path, container: Data) -> Iterator[containers.Fault]:
    seen = set[str]()
    for index, port in enumerate(container.get("ports", ())):
        at, name = (*path, "ports", index, "name"), port.get("name")
        if name is None:
            continue
        if name in seen:
            yield containers.Fault(at, f"Container '{container['name']}' has two ports named '{name}'.", "Rename one.")
        elif len(name) > _LONGEST_PORT or _PORT.fullmatch(name) is None:
            message = f"'{name}' is not the name of a port."
            hint = f"Write at most {_LONGEST_PORT} lower-case letters, digits and single '-', with a letter."
            yield containers.Fault(at, message, hint)
        seen.add(name)


def _of_lists(path: documents.Path, container: Data) -> Iterator[containers.Fault]:
    """Yield what a list has twice that server-side apply merges by a key, and refuses."""
    ports = [(port.get("protocol", "TCP"), port["containerPort"]) for port in container.get("ports", ())]
    for field, key, keys in (
        ("env", "name", [variable["name"] for variable in container.get("env", ())]),
        ("ports", "containerPort", ports),
    ):
        for index, one in enumerate(keys):
            if one in keys[:index]:
                what = f"the variable '{one}'" if field == "env" else f"{one[0]} port {one[1]}"
                message = f"Container '{container['name']}' has {what} twice."
                notes = ("Server-side apply merges this list by its keys, and refuses two that are equal.",)
                yield containers.Fault((*path, field, index, key), message, _KEEP, notes)


def _of_host_ports(every: list[Container]) -> Iterator[containers.Fault]:
    """Yield the ports that two containers open at the node's address."""
    seen = dict[tuple[str, int], str]()
    for path, container in every:
        for index, port in enumerate(container.get("ports", ())):
            key = (port.get("protocol", "TCP"), port["containerPort"])
            if seen.setdefault(key, container["name"]) != container["name"]:
                message = f"Two ports of the pod are {key[1]} of the node, as it has hostNetwork."
                hint = "Remove one of the two."
                yield containers.Fault((*path, "ports", index, "containerPort"), message, hint)


def _of_probes(path: documents.Path, container: Data) -> Iterator[containers.Fault]:
    names = [port["name"] for port in container.get("ports", ()) if "name" in port]
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(field, {})
        if field != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            message = f"The successThreshold of a {field} is 1."
            yield containers.Fault(
                (*path, field, "successThreshold"), message, "Remove it; a readinessProbe may have more."
            )
        for way in ("httpGet", "tcpSocket"):
            port = probe.get(way, {}).get("port", 0)
            if isinstance(port, str) and port not in names:
                message = f"Container '{container['name']}' has no port named '{port}', and its {field} asks there."
                hint = wording.did_you_mean(port, names) or "Write its number, or name it in 'ports'."
                yield containers.Fault((*path, field, way, "port"), message, hint)
    for field, hook in container.get("lifecycle", {}).items():
        if "exec" not in hook:
            yield containers.Fault(
                (*path, "lifecycle", field), f"The {field} of a container is empty.", "Give it an exec."
            )


def _of_rights(path: documents.Path, container: Data, of_pod: Data) -> Iterator[containers.Fault]:
    own = container.get("securityContext", {})
    at = (*path, "securityContext")
    if own.get("privileged") and own.get("allowPrivilegeEscalation") is False:
        message = f"Container '{container['name']}' is privileged, so allowPrivilegeEscalation cannot be false."
        yield containers.Fault((*at, "allowPrivilegeEscalation"), message, "Leave one of the two out.")
    settings = {**of_pod, **own}
    if settings.get("runAsNonRoot") and settings.get("runAsUser") == 0:
        message = f"Container '{container['name']}' runs as user 0, and runAsNonRoot refuses root."
        place = (*at, "runAsUser") if "runAsUser" in own else ("securityContext", "runAsUser")
        yield containers.Fault(place, message, "Leave one of the two out.")
    known = (*privileges.CAPABILITIES, privileges.ALL)
    for field, listed in own.get("capabilities", {}).items():
        for index, name in enumerate(listed):
            if name not in known:
                bare = name.removeprefix(privileges.CAPABILITY_PREFIX)
                hint = wording.did_you_mean(bare, known, "See capabilities(7).")
                notes = ("Runtimes leave out what they do not know, and put CAP_ before each name themselves.",)
                yield containers.Fault(
                    (*at, "capabilities", field, index), f"There is no capability '{name}'.", hint, notes
                )


_AMOUNT = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")


def _of_amounts(path: documents.Path, container: Data) -> Iterator[containers.Fault]:
    resources = container.get("resources", {})
    unread = [
        (side, name)
        for side in ("limits", "requests")
        for name, amount in resources.get(side, {}).items()
        if pods.amount_of(amount) is None
    ]
    for side, name in unread:
        yield _not_an_amount((*path, "resources", side, name), resources[side][name])
    for fault in () if unread else containers.faults(pods.Resources(**resources)):
        yield containers.Fault((*path, "resources", *fault.path), fault.message, fault.hint, fault.notes)
    for index, variable in enumerate(container.get("env", ())):
        reference = variable.get("valueFrom", {}).get("resourceFieldRef", {})
        if reference and _AMOUNT.fullmatch(reference["resource"]) is None:
            at = (*path, "env", index, "valueFrom", "resourceFieldRef", "resource")
            message = f"No variable can hold '{reference['resource']}'."
            yield containers.Fault(
                at, message, "Name limits or requests of cpu, memory or ephemeral-storage, as limits.memory."
            )
