"""Rules for one KAECluster."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from compiler import names, wording
from compiler.checks import containers, lists, policy
from compiler.checks import images as image_checks
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.fleet import clusters, definitions
from compiler.formats import documents
from compiler.inventory import reduction
from compiler.planning import images, plan, supported
from compiler.rendering import privileges

shared_rule(
    "conflicting-settings", "error", "The settings of a cluster contradict neither each other nor another cluster."
)

_MOST = 5
"""Labels, places of selectors, and programs of recipes, that a finding lists."""
_Conflict = tuple[documents.Path, str, str]
"""The path of a setting below `spec`, the message and the hint."""
_FLUX_SCHEMES = ("http://", "https://", "ssh://")
"""The schemes of a GitRepository's URL: https://fluxcd.io/flux/components/source/gitrepositories/#url"""


def findings(cluster: definitions.Cluster, output: str = names.OUTPUT) -> Iterator[Diagnostic]:
    """Yield the mistakes in one KAECluster, judged without any nodes; `output` is the project's folder of outputs."""
    source = cluster.source
    if source is None:
        return
    yield from nfd_release(cluster, source)
    yield from pods(cluster, source)
    yield from kubernetes_release(cluster, source)
    yield from conflicting_settings(cluster, source)
    yield from engine_repository(cluster, source)
    yield from engine_path(cluster, source, output)
    yield from watcher(cluster, source)
    yield from image_references(cluster, source)


def pods(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """The API server takes the settings of the pods of NFD and of the watcher, and keeps each as it is."""
    spec = cluster.spec
    for name, owner, placement in (("nfd", "NFD", spec.nfd), ("watcher", "the watcher", spec.watcher)):
        path: documents.Path = ("spec", name)
        yield from policy.tolerations(source, (*path, "tolerations"), placement.tolerations)
        yield from containers.pull_secrets(source, path, placement.pullSecrets)
        if placement.nodeSelector is not None:
            yield from policy.selector(source, (*path, "nodeSelector"), placement.nodeSelector, owner)
    for part in ("master", "worker", "gc"):
        yield from containers.amounts(source, ("spec", "nfd", part, "resources"), getattr(spec.nfd, part).resources)
    yield from containers.amounts(source, ("spec", "watcher", "resources"), spec.watcher.resources)
    yield from containers.variables(source, ("spec", "watcher"), spec.watcher.env, ("HOME",))


@rule("nfd-release", "error")
def nfd_release(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """NFD is rendered for its releases 0.16 to 0.19."""
    tag = cluster.spec.nfd.image.tag
    if cluster.spec.nfd.enabled and supported.nfd_minor(tag) is None:
        yield Diagnostic(
            span=source.span("spec", "nfd", "image", "tag"),
            message=f"'{tag}' is not a tag of NFD 0.16 to 0.19.",
            notes=("The arguments and permissions of NFD differ between releases.",),
            hint="Use a tag from v0.16.4 to the newest of 0.19.",
        )


@rule("kubernetes-release", "error")
def kubernetes_release(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """Manifests are rendered for Kubernetes 1.25 and newer."""
    version = cluster.spec.kubernetesVersion
    if version is not None and supported.kubernetes_minor(version) < supported.OLDEST_KUBERNETES:
        message = f"Kubernetes '{version}' is older than 1.{supported.OLDEST_KUBERNETES}, the oldest supported one."
        hint = "Correct the version, or upgrade the cluster first."
        yield Diagnostic(span=source.span("spec", "kubernetesVersion"), message=message, hint=hint)


def conflicting_settings(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """The settings contradict neither each other nor what their engine can do."""
    for path, message, hint in (*_contradictions(cluster.spec), *_flux_repository(cluster.spec.gitops)):
        span = source.setting_span("spec", *path)
        yield Diagnostic(code="conflicting-settings", span=span, message=message, hint=hint)


def _contradictions(spec: clusters.Spec) -> Iterator[_Conflict]:
    argocd, flux = spec.gitops.argocd, spec.gitops.flux
    if argocd.destination.server is not None and argocd.destination.name is not None:
        message = "An Argo CD destination has a server and a name, but may have only one of them."
        yield ("gitops", "argocd", "destination", "name"), message, "Remove one of the two."
    if spec.gitops.engine == "argocd" and argocd.project == "default":
        message = "'default' is Argo CD's built-in project, which bootstrap/ would overwrite."
        yield ("gitops", "argocd", "project"), message, "Leave argocd.project out, or choose another name."
    if flux.sourceRef is not None and flux.secretRef is not None:
        message = "flux.secretRef belongs to the GitRepository in bootstrap/, but flux.sourceRef replaces it."
        yield ("gitops", "flux", "secretRef"), message, "Remove one of the two."
    if spec.psa.enabled and not spec.namespaceManaged:
        message = f"The namespace '{spec.namespace}' is not managed here, so it gets no psa labels."
        hint = "Remove psa.enabled and label the namespace where it is managed, or set namespaceManaged: true."
        yield ("psa", "enabled"), message, hint


@rule("bootstrap-incomplete", "warning")
def engine_repository(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """A GitOps engine has a repository to apply from, and Flux a Secret for one that it reaches by ssh."""
    gitops = cluster.spec.gitops
    needs_url = gitops.engine == "argocd" or (gitops.engine == "flux" and gitops.flux.sourceRef is None)
    if needs_url and gitops.repository is None:
        yield Diagnostic(
            span=source.span("spec", "gitops", "engine"),
            message=f"The repository that '{gitops.engine}' applies cluster '{cluster.name}' from is not set.",
            notes=("Without it, no bootstrap/ is written.",),
            hint=f"Set gitops.repository.url{' or gitops.flux.sourceRef' if gitops.engine == 'flux' else ''}.",
        )
    by_ssh = gitops.repository is not None and gitops.repository.url.startswith("ssh://")
    if by_ssh and needs_url and gitops.engine == "flux" and gitops.flux.secretRef is None:
        yield Diagnostic(
            span=source.span("spec", "gitops", "repository", "url"),
            message=f"Flux fetches the repository of cluster '{cluster.name}' by ssh, and has no Secret for it.",
            notes=("The Secret has a key and the host's keys (`flux create secret git`).",),
            hint="Set gitops.flux.secretRef.name.",
        )


def _flux_repository(gitops: clusters.GitOps) -> Iterator[_Conflict]:
    """The URL of the GitRepository in bootstrap/ has a scheme that Flux's CRD allows."""
    if gitops.engine != "flux" or gitops.flux.sourceRef is not None or gitops.repository is None:
        return
    url = gitops.repository.url
    if url.startswith(_FLUX_SCHEMES):
        return
    host, colon, path = url.partition(":")
    is_short = "@" in host and colon
    message = f"Flux needs a URL with ssh://, https:// or http://, but '{url}' has none of them."
    hint = f"Write ssh://{host}/{path.removeprefix('/')}." if is_short else "Write such a URL."
    yield ("gitops", "repository", "url"), message, hint


@rule("engine-path", "warning")
def engine_path(cluster: definitions.Cluster, source: documents.Document, output: str) -> Iterator[Diagnostic]:
    """A GitOps engine applies the folder that the cluster is compiled to."""
    gitops = cluster.spec.gitops
    path = gitops.repository.path if gitops.repository else None
    if gitops.engine == "none" or path is None or reads_artifact(gitops):
        return
    parts = [part for part in output.split("/") if part not in ("", ".", "..")]
    wanted = [*(parts[-1:] if output.startswith("/") else parts), cluster.name]
    # What git does not show may be in another folder of the repository, so only the end has to agree.
    if [part for part in path.split("/") if part not in ("", ".")][-len(wanted) :] != wanted:
        yield Diagnostic(
            span=source.span("spec", "gitops", "repository", "path"),
            message=f"'{gitops.engine}' applies '{path}', but cluster '{cluster.name}' is compiled to "
            f"'{'/'.join(wanted)}'.",
            notes=("So it does not apply what is compiled, unless something copies the output there.",),
            hint="Remove the path, or end it with that folder if the project is not the root of its repository.",
        )


def reads_artifact(gitops: clusters.GitOps) -> bool:
    """Return whether the engine reads what a pipeline packs, which may have any path there."""
    reference = gitops.flux.sourceRef
    return gitops.engine == "flux" and reference is not None and reference.kind != "GitRepository"


@rule("watcher-incomplete", "error")
def watcher(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """An enabled watcher has a repository and a Secret."""
    spec = cluster.spec.watcher
    if not spec.enabled:
        return
    parts = (
        ("repository", spec.repository, "the git repository of inventories, which no GitOps engine applies"),
        ("secretName", spec.secretName, "the Secret with that repository's credentials"),
    )
    for field, value, meaning in parts:
        if value is None:
            message = f"The watcher of cluster '{cluster.name}' is enabled without '{field}'."
            hint = f"Set watcher.{field}: {meaning}."
            yield Diagnostic(span=source.span("spec", "watcher", "enabled"), message=message, hint=hint)
    if images.tag(spec.image) == "latest":
        yield image_checks.mutable_tag(source, ("spec", "watcher", "image"), spec.image, "the watcher's image")


@rule("ignored-label", "error")
def ignored_labels(policies: Iterable[definitions.Policy], cluster: definitions.Cluster) -> Iterator[Diagnostic]:
    """The watcher leaves no label that decides over nodes out of the inventory."""
    spec = cluster.spec.watcher
    if cluster.source is None or not (spec.ignoreLabels or spec.inventory.labels):
        return
    deciding = tuple(plan.deciding_labels(policies, cluster.name))
    for index, pattern in enumerate(spec.ignoreLabels):
        lost = [label for label in deciding if reduction.is_ignored(label.key, pattern)]
        hint = "Remove it, or ignore only labels that no selector uses."
        yield from _lost(cluster, ("ignoreLabels", index), f"'{pattern}'", lost, hint)
    kept = spec.inventory.labels
    if kept:
        lost = [label for label in deciding if not any(reduction.is_kept(label.key, name) for name in kept)]
        yield from _lost(cluster, ("inventory", "labels"), "The list of labels", lost, "Add them to the list.")


def _lost(
    cluster: definitions.Cluster,
    field: documents.Path,
    cause: str,
    lost: Sequence[plan.Deciding],
    hint: str,
) -> Iterator[Diagnostic]:
    """Yield the finding on deciding labels that a field of the watcher leaves out, if there are any."""
    if not lost:
        return
    keys = sorted({label.key for label in lost})
    places = [f"A selector uses '{label.key}' at {label.span}." for label in lost if label.span]
    more = len(places) - _MOST
    yield Diagnostic(
        span=cluster.span("spec", "watcher", *field),
        message=f"{cause} keeps {wording.counted(len(keys), 'label')} that "
        f"{'decides' if len(keys) == 1 else 'decide'} over nodes out of the inventory of cluster "
        f"'{cluster.name}': {wording.listed(keys, most=_MOST)}.",
        notes=(
            *places[:_MOST],
            *((f"{wording.counted(more, 'more use')} of such labels.",) if more > 0 else ()),
            *(("Every policy decides by labels of devices and by opt-outs.",) if len(places) < len(lost) else ()),
        ),
        hint=hint,
    )


def image_references(cluster: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """The images of NFD and the watcher, and both sides of a mirror, are image references; a prefix has one mirror."""
    spec = cluster.spec
    if spec.nfd.enabled:
        path: documents.Path = ("spec", "nfd", "image", "repository")
        yield from image_checks.of_setting(source, path, spec.nfd.image.repository, "NFD's image")
    if spec.watcher.enabled:
        path = ("spec", "watcher", "image")
        yield from image_checks.of_setting(source, path, spec.watcher.image, "The watcher's image")
    mirrors: documents.Path = ("spec", "images", "mirrors")
    named = (((*mirrors, index, "from"), mirror.from_) for index, mirror in enumerate(spec.images.mirrors))
    yield from lists.twice(source, named, "The prefix '{}' is mirrored twice.")
    for index, mirror in enumerate(spec.images.mirrors):
        for field, prefix in (("from", mirror.from_), ("to", mirror.to)):
            yield from image_checks.of_setting(source, (*mirrors, index, field), prefix.rstrip("/"), "The prefix")


@rule("refuses-nothing", "warning")
def refuses_nothing(cluster: definitions.Cluster, known: Mapping[str, Collection[str]]) -> Iterator[Diagnostic]:
    """Each of a cluster's recipes.refuse names a program of a known recipe, and a privilege that there is.

    A misspelt one would refuse nothing, and nobody would hear of it. `known` are the programs of recipes by name, none
    of a recipe that is not read here.
    """
    programs = sorted(f"{name}-{program}" for name, own in known.items() for program in own)
    for index, refusal in enumerate(cluster.spec.recipes.refuse):
        program, text = "", refusal
        if re.fullmatch(clusters.PRIVILEGE, refusal) is None:
            program, _, text = refusal.partition(": ")
        is_unread = any(not own and program.startswith(f"{name}-") for name, own in known.items())
        if program and not is_unread and not any(names.glob_matches(program, each) for each in programs):
            word, what, choice = program, "no recipe here has a program '{}'", programs
        elif text.startswith("pods: ") and not _names(text.removeprefix("pods: "), privileges.IN_PODS):
            word, what, choice = text.split()[1], "no recipe gives a '{}' to pods", [*privileges.IN_PODS]
        elif text.startswith(privileges.CAPABILITY) and not privileges.names_capability(text):
            word, what = text.removeprefix(privileges.CAPABILITY), "there is no capability '{}'"
            choice = [*privileges.CAPABILITIES]
        else:
            continue
        yield Diagnostic(
            span=cluster.span("spec", "recipes", "refuse", index),
            message=f"Cluster '{cluster.name}' refuses nothing by '{wording.cut(refusal)}': "
            f"{what.format(wording.cut(word))}.",
            hint=wording.did_you_mean(word, choice, f"Known are {wording.listed(choice, most=_MOST)}."),
        )


def _names(glob: str, words: Iterable[str]) -> bool:
    """Return whether a glob can match a text that begins with one of these words and a space."""
    literal = re.split(r"[*?\[]", glob)[0]
    return any(f"{word} ".startswith(literal) or literal.startswith(f"{word} ") for word in words)


def refused(cluster: definitions.Cluster, listed: Iterable[privileges.Listed]) -> Iterator[Diagnostic]:
    """No program of a recipe has a privilege that the cluster refuses."""
    listed = tuple(listed)
    for index, refusal in enumerate(cluster.spec.recipes.refuse):
        found = [privilege for privilege in listed if privilege.is_refused(refusal)]
        for program in dict.fromkeys(privilege.program for privilege in found):
            own = [privilege.text for privilege in found if privilege.program == program]
            yield Diagnostic(
                code="privilege-refused",
                span=cluster.span("spec", "recipes", "refuse", index),
                message=f"Cluster '{cluster.name}' refuses a privilege of '{program}': {own[0]}.",
                notes=tuple(f"It also refuses: {text}." for text in own[1:]),
                hint="Leave the cluster out of spec.clusters of the DevicePolicy, or no longer refuse the privilege.",
            )
