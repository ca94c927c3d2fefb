"""`kae support-bundle`: one archive with what a report of a fault needs, and no secret that its name or form tells."""

import argparse
import contextlib
import functools
import gzip
import http
import io
import json
import os
import platform
import re
import signal
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from compiler import __version__, cli, diagnostic_formats, diagnostics, errors, masking, names, recipes, wording
from compiler.cli import findings, live
from compiler.commands import plan as plan_command
from compiler.commands import status
from compiler.fleet import definitions
from compiler.kube import client, pods, reader
from compiler.planning import plan
from compiler.project import project_file
from compiler.project.by_cluster import planned
from compiler.rendering import privileges
from compiler.status import cluster_status
from compiler.status import text as status_text
from compiler.views import plan_data, plan_text

FOLDER = "kae-support-bundle"
"""The folder that holds everything, so that an archive is never unpacked over other files."""

_TIMEOUTS = client.Timeouts(connect_s=10, read_s=20, answer_s=60)
"""A cluster in trouble answers late or never, and the bundle is wanted now."""

_ADVICE = (
    "It names nodes, images and policies, and masks passwords, tokens and keys by their names and forms.\n"
    "Look through it before you send it."
)

PODS = "objects/Pod.json"
MOST_NODES = 20
LOG = pods.Bounds(size=1 << 20, time_s=30)
ANSWER = pods.Bounds(size=1 << 20, time_s=60)
_MOST_EVENTS = 5000

_Question = tuple[tuple[str, ...], tuple[str, ...], str]
"""A question to a program on its node: the containers of which the first that is there answers, the command, and the
file of the answer."""
# An installer that ends with its work leaves a reporter.
_TO_DRIVER: _Question = (("reporter", "installer"), ("python", "-m", "installer", "status"), "installer-status.txt")
_TO_PLUGIN: _Question = (("device-plugin",), ("python", "-m", "device_plugin", "list"), "device-plugin-list.txt")

_KINDS = (
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("coordination.k8s.io/v1", "Lease"),
)
"""The objects whose state a fault shows in, beside pods; rules, rights and policies are in the difference."""


class Bundle(msgspec.Struct, kw_only=True, dict=True):
    """The files of a bundle, and a sentence for each part that is missing or cut."""

    texts: dict[str, str] = msgspec.field(default_factory=dict)
    missing: list[str] = msgspec.field(default_factory=list)

    def add(self, path: str, data: Any) -> None:
        """Add a text, or data as JSON without secrets."""
        if not isinstance(data, str):
            data = json.dumps(masking.data(data), indent=1, ensure_ascii=False) + "\n"
        self.texts[path] = data

    def lack(self, sentence: str) -> None:
        """Say that something is not there."""
        self.missing.append(masking.text(f"{sentence.rstrip('.')}."))

    def attempt(self, part: str, take: Callable[[], None]) -> errors.WorldError | None:
        """Take a part; where that fails, say why, and return the reason."""
        try:
            take()
        except errors.WorldError as error:
            self.lack(f"{part}: {error}")
            return error
        return None


def run(arguments: argparse.Namespace) -> int:
    """Write the bundle; return 3 where the cluster does not tell its pods, though what else there is is in it.

    An interrupted collection writes what it has.
    """
    target = Path(arguments.target)
    if arguments.target == "-":
        cli.parser().error("a bundle is a file.", "Name it: --output-file ../bundle.tar.gz.")
    run, view = planned.of_one(project_file.of(arguments), arguments.cluster)
    made = Bundle()
    with _ended_as_by_ctrl_c(), opened(target) as file:
        is_sound = _local(arguments, view, run.findings, made)
        try:
            code = _remote(arguments, run.fleet, view, made, is_sound=is_sound)
        except KeyboardInterrupt:
            # A cluster in trouble may keep one waiting for long, and what it said already is of use.
            made.lack("the rest: it was interrupted")
            code = cli.INTERRUPTED
        made.add("errors.txt", "".join(f"{line}\n" for line in made.missing) or "Nothing is missing.\n")
        write(file, made.texts, int(time.time()))
    for sentence in made.missing:
        sys.stderr.write(f"missing: {wording.escaped(sentence)}\n")
    sys.stdout.write(f"{wording.file_name(arguments.target)}: {wording.counted(len(made.texts), 'file')}\n{_ADVICE}\n")
    return code


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt also where a session is lost (SIGHUP) or the process is told to end (SIGTERM)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that only its owner may read; remove it where what follows fails.

    Raises WorldError where it exists or cannot be made: a bundle of an earlier look is never lost.
    """
    name = wording.file_name(str(path))
    try:
        # O_EXCL follows no link (open(2)).
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except FileExistsError as error:
        if path.is_dir():
            raise errors.WorldError(f"'{name}' is a folder.", hint="Name a file in it.") from error
        raise errors.WorldError(f"'{name}' exists already.", hint="Remove it, or name another file.") from error
    except OSError as error:
        raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
    try:
        with file:
            yield file
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
        raise


def write(target: BinaryIO, texts: Mapping[str, str], time_s: int) -> None:
    """Write texts by path as a .tar.gz, sorted by path, each masked once more; the same texts give the same bytes."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=time_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(texts):
            content = masking.text(texts[path]).encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"{FOLDER}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), time_s, 0o600
            archive.addfile(entry, io.BytesIO(content))


def _local(arguments: argparse.Namespace, view: plan.Plan, every: diagnostics.Findings, made: Bundle) -> bool:
    """Add the findings, and the plan unless the documents are wrong; return whether they are not."""
    found = findings.with_severities(arguments, every)
    quoted = diagnostic_formats.text(map(_without_source, found), colour=False)
    made.add("findings.txt", quoted or "There are no findings.\n")
    if findings.concluded(arguments, found):
        made.lack("the plan, the status and the difference: the documents have errors, see findings.txt")
        return False
    made.add("plan.txt", "\n".join([*plan_text.summary(view), *plan_text.details(view)]) + "\n")
    made.add("plan.json", plan_data.data(view, plan_command.privileges(view)))
    return True


def _without_source(found: diagnostics.Diagnostic) -> diagnostics.Diagnostic:
    """Return a finding without the line of its document, and without the value that stands there.

    It may be that of a variable, whose name is on another line.
    """
    value = found.span.text.partition(":")[2].strip(" '\"*")[: wording.LONGEST]
    hidden = functools.partial(re.sub, rf"(?<!\w)\*?{re.escape(value)}(?!\w)", masking.MASK)
    is_value = value and found.span.text.lstrip(" -").startswith("value")
    return found._replace(
        span=found.span._replace(text=""),
        message=hidden(found.message) if is_value else found.message,
        notes=tuple(map(hidden, found.notes)) if is_value else found.notes,
        hint=hidden(found.hint) if is_value else found.hint,
    )


def _remote(
    arguments: argparse.Namespace, fleet: definitions.Fleet, view: plan.Plan, made: Bundle, *, is_sound: bool
) -> int:
    versions: dict[str, Any] = {"kae": __version__, "python": platform.python_version(), "server": None}
    try:
        asked = live.cluster(arguments, _TIMEOUTS)
        versions |= {"server": asked.version(), "url": asked.host}
    except errors.WorldError as error:
        # Who may read nothing of the server may still read pods; a proxy or a page in its place knows nothing.
        if not isinstance(error, client.Refused) or error.status != http.HTTPStatus.FORBIDDEN:
            made.lack(f"everything of the cluster: {error}")
            return cli.WORLD
        made.lack(f"the server's version: {error}")
    finally:
        made.add("versions.json", versions)
    with contextlib.closing(asked):
        if is_sound:
            settings = project_file.of(arguments)
            made.attempt("status", lambda: _add_status(made, status.of_cluster(asked, fleet, view, settings)[0]))
        nodes = [name.rpartition("/")[2] for name in arguments.node]
        known = [each.recipe for each in view.recipes]
        Collection(asked, view.cluster.spec.namespace, made, known).collect(nodes)
    return cli.FINE if PODS in made.texts else cli.WORLD


def _add_status(made: Bundle, found: cluster_status.ClusterStatus) -> None:
    """Add the status, and the difference between the live objects and the output."""
    masked = msgspec.structs.replace(found, drifts=tuple(map(_masked, found.drifts)))
    data = cluster_status.data(masked)
    made.add("status.txt", status_text.text(masked, status.age_s))
    made.add("status.json", {key: value for key, value in data.items() if key != "objects"})
    made.add("difference.json", data["objects"])


def _masked(deviation: cluster_status.Drift) -> cluster_status.Drift:
    changes = []
    for change in deviation.changes:
        wanted, there = (masking.change(change.path, value) for value in (change.wanted, change.live))
        changes.append(msgspec.structs.replace(change, wanted=wanted, live=there))
    return msgspec.structs.replace(deviation, changes=tuple(changes))


class Collection:
    """Collect the part of a bundle that one cluster tells.

    Nothing that cannot be read ends it: each part that is missing is a sentence. Secrets are never asked for.
    """

    def __init__(self, cluster: reader.Cluster, namespace: str, into: Bundle, known: Sequence[recipes.Recipe]) -> None:
        """Store where to look, and the recipes whose pods may be there; nothing is asked yet."""
        self._questions: Mapping[str, _Question] = {
            **{recipe.driver: _TO_DRIVER for recipe in known},
            **{recipe.device_plugin: _TO_PLUGIN for recipe in known},
        }
        vendors = (recipe.app(program) for recipe in known for program in recipe.programs)
        self._apps = (*self._questions, *vendors, names.WATCHER, names.SMOKE, *names.NFD)
        self._cluster, self._namespace, self._bundle = cluster, namespace, into
        self._silent: set[str] = set()
        """Nodes that once did not answer in time: nothing more is asked of them."""
        self._may_run = True

    def collect(self, nodes: Sequence[str]) -> None:
        """Take everything; logs and answers of the named nodes, or else of the first ones."""
        self._bundle.attempt("nodes", lambda: self._bundle.add("nodes.json", list(self._cluster.snapshot(_node))))
        for api_version, kind in _KINDS:
            self._bundle.attempt(f"objects/{kind}", functools.partial(self._objects, api_version, kind))
        found: list[Mapping[str, Any]] = []
        self._bundle.attempt("pods", lambda: found.extend(self._pods()))
        self._bundle.attempt("events", lambda: self._events([pod["metadata"]["name"] for pod in found]))
        for pod in self._chosen(found, nodes):
            self._logs(pod)
            self._answer(pod)

    def _objects(self, api_version: str, kind: str) -> None:
        labels = "" if kind == "Lease" else names.RENDERED
        items = self._cluster.objects(api_version, kind, self._namespace, labels=labels)
        self._bundle.add(f"objects/{kind}.json", list(items))

    def _pods(self) -> list[Mapping[str, Any]]:
        labels = f"{names.APP_LABEL} in ({','.join(self._apps)})"
        items = self._cluster.objects("v1", "Pod", self._namespace, labels=labels)
        found = sorted(items, key=lambda pod: pod["metadata"]["name"])
        self._bundle.add(PODS, found)
        return found

    def _events(self, pods_there: Sequence[str]) -> None:
        """Add the events of the pods, and of those that were replaced: their names begin as the apps' do."""
        kept = []
        for number, event in enumerate(self._cluster.objects("v1", "Event", self._namespace)):
            if number == _MOST_EVENTS:
                self._bundle.lack(f"events: only the first {_MOST_EVENTS} of namespace '{self._namespace}' were read")
                break
            name = str((event.get("involvedObject") or {}).get("name"))
            if name in pods_there or name.startswith(self._apps):
                kept.append(event)
        self._bundle.add("events.json", sorted(kept, key=_time))

    def _chosen(self, found: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the pods whose logs are read, and say which nodes are left out."""
        by_node: dict[str, list[Mapping[str, Any]]] = {}
        for pod in found:
            by_node.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        for name in wanted:
            if name not in by_node:
                self._bundle.lack(f"node {name}: no pod of KAE is on it")
        order = sorted(by_node, key=lambda name: (all(map(_is_ready, by_node[name])), name))
        # A name that is wrong does not cost the logs.
        chosen = [name for name in order if name in wanted] or order[:MOST_NODES]
        if left := [name or "no node" for name in order if name not in chosen]:
            what = f"logs and answers of {wording.nodes(left)} were not asked for"
            self._bundle.lack(f"{what}; name a node by --node to have its own")
        return [pod for name in chosen for pod in by_node[name]]

    def _logs(self, pod: Mapping[str, Any]) -> None:
        restarted = {state["name"] for state in _states(pod) if state.get("restartCount")}
        for item in privileges.containers(pod["spec"]):
            self._log(pod, item["name"], previous=False)
            if item["name"] in restarted:
                self._log(pod, item["name"], previous=True)

    def _log(self, pod: Mapping[str, Any], container: str, *, previous: bool) -> None:
        path = _path("logs", pod["metadata"]["name"], f"{container}{'.previous' if previous else ''}.log")

        def take() -> None:
            output = self._cluster.pods.log(self._container(pod, container), LOG, previous=previous)
            self._bundle.add(path, output.text)
            if output.is_cut:
                self._bundle.lack(f"{path}: only its last {LOG.size >> 20} MiB, from a whole line on")

        self._ask(pod, path, take)

    def _answer(self, pod: Mapping[str, Any]) -> None:
        """Ask a program on its node, where the cluster lets us run commands."""
        app = pod["metadata"]["labels"].get(names.APP_LABEL, "")
        if app not in self._questions or not self._may_run:
            return
        asked, command, file = self._questions[app]
        path = _path("nodes", str(pod["spec"].get("nodeName")), f"{pod['metadata']['name']}-{file}")
        there = {item["name"] for item in privileges.containers(pod["spec"])}
        container = next(name for name in asked if name in there)
        # While an init container works, a reporter runs in a pod that is Pending.
        running = {state["name"] for state in _states(pod) if "running" in (state.get("state") or {})}
        if (pod.get("status") or {}).get("phase") != "Running" and container not in running:
            self._bundle.lack(f"{path}: its pod does not run")
            return

        def take() -> None:
            output = self._cluster.pods.run(self._container(pod, container), command, ANSWER)
            self._bundle.add(path, output.text)
            if output.is_cut or output.code:
                end = f"only the first {ANSWER.size >> 20} MiB" if output.is_cut else f"exit code {output.code}"
                self._bundle.lack(f"{path}: {end} of '{' '.join(command)}'")

        if isinstance(self._ask(pod, path, take), client.Denied):
            self._may_run = False
            why = "as that takes the rights to get and create pods/exec"
            self._bundle.lack(f"nodes/: no other program was asked, {why}")

    def _ask(self, pod: Mapping[str, Any], path: str, take: Callable[[], None]) -> errors.WorldError | None:
        """Take what a node's kubelet has to answer, unless it has not answered before."""
        node = pod["spec"].get("nodeName") or ""
        if node in self._silent:
            self._bundle.lack(f"{path}: not asked for, as node {node} did not answer before")
            return None
        fault = self._bundle.attempt(path, take)
        # An API server that does not reach the kubelet says so after half a minute, in the words of Go's net.Dial.
        if isinstance(fault, client.Unreachable) or (fault is not None and "dial tcp" in str(fault)):
            self._silent.add(node)
        return fault

    def _container(self, pod: Mapping[str, Any], name: str) -> pods.Container:
        return pods.Container(namespace=self._namespace, pod=pod["metadata"]["name"], name=name)


def _path(*parts: str) -> str:
    """Return a path in the archive; no name of a cluster leads out of it, or steers a terminal that lists it."""
    return "/".join(re.sub(r"[^\w.-]|^\.+$", "_", part, flags=re.ASCII) for part in parts)


def _node(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a fault may come from: a real Node also lists hundreds of images."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return {
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "taints": spec.get("taints") or [],
        "unschedulable": bool(spec.get("unschedulable")),
        **{key: status.get(key) for key in ("nodeInfo", "capacity", "allocatable", "conditions")},
    }


def _states(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    status = pod.get("status") or {}
    return (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions: Iterable[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
