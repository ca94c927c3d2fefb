"""What Argo CD and Flux make of a file in a cluster's folder that the compiler did not write; the check stops it first.

A pull request that changes nothing but output/ shows a reviewer folded, generated text, so the check has to find it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests import in_process, project
from tests.cluster import test_gitops
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, gitops
from tests.cluster.local import waiting

SYNC_S = 120
EVIL = "registry.example.org/stranger/installer:1"

# https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git
IMAGE = f"kustomize:\n  images:\n  - registry.example.com/openfuyao/kae-driver-installer={EVIL}\n"
COMMAND = """\
kustomize:
  patches:
  - target: {kind: DaemonSet, name: kae-driver-.*}
    patch: |-
      - {op: replace, path: /spec/template/spec/containers/0/command, value: [sh, -c, id]}
"""
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n"

SECOND = "multiple kustomization files"
"""What kustomize says of two of them."""

EAST, WEST = ("east", "argocd"), ("west", "flux")

Container = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A cluster whose repository an engine follows."""

    cluster: str
    repository: gitops.Repository
    application: gitops.Application
    objects: kinds.Objects

    @property
    def manifests(self) -> Sequence[manifests.Manifest]:
        """The objects that the compiler wrote for the engine."""
        return test_gitops.applied(self.repository, self.cluster)

    def installers(self) -> Sequence[Container]:
        """Return the container of each driver installer as it is in the cluster."""
        wanted = [item for item in self.manifests if (item.component, item.kind) == ("driver", "DaemonSet")]
        found = [self.objects.get(item.data) for item in wanted]
        return [item["spec"]["template"]["spec"]["containers"][0] for item in found]

    def check(self) -> in_process.Answer:
        """Return the answer of a check on the last commit."""
        return in_process.kae(self.repository.folder, "compile", "--check", "--no-cache", "--cluster", self.cluster)

    @contextlib.contextmanager
    def holding(self, name: str, text: str) -> Iterator[None]:
        """Commit a file in the cluster's folder for as long as the context lasts."""
        path = f"output/{self.cluster}/{name}"
        project.write(self.repository.folder, {path: text})
        self.repository.commit("Tidy the output")
        self.application.notice()
        try:
            yield
        finally:
            (self.repository.folder / path).unlink()
            self.repository.commit("Take it back")
            self.application.notice()
            self.application.resync()

    def wait_until(self, what: str, probe: Callable[[], object]) -> None:
        """Wait for the engine.

        Raises:
            TimedOut: With what the engine says.
        """
        waiting.until(what, probe, timeout_s=SYNC_S, explain=self.application.explain)


@pytest.fixture(scope="module")
def followed(
    request: pytest.FixtureRequest,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    """A cluster that is synced and passes the check; at the end all that was applied is gone."""
    cluster, engine = request.param
    repository = test_gitops.example(tmp_path_factory.mktemp(cluster) / "fleet", cluster, engine)
    bootstrap = [item for item in manifests.of(repository.folder / "output" / cluster) if item.is_bootstrap]
    platform = manifests.definitions_of_nfd() if cluster in test_gitops.NFD_IS_THERE else []
    for item in platform:
        objects.apply(item.data, item.text, "platform")
        objects.wait_until_established(item.data)
    application = engines[engine].follow(bootstrap, repository)
    found = Followed(cluster=cluster, repository=repository, application=application, objects=objects)
    found.wait_until("the first sync", lambda: application.is_synced(repository.head()))
    assert found.check().code == 0
    yield found
    application.end()
    left = [*platform, *found.manifests]
    for item in reversed(left):  # The definitions of kinds last.
        objects.delete(item.data)
    found.wait_until("its end", lambda: not any(objects.get(item.data) for item in left))


def assert_refused(answer: in_process.Answer, path: str) -> None:
    """Fails where a check lets a file pass that an engine reads by itself, or does not name it."""
    assert answer.code == 1, answer
    assert f"{path}: error[engine-file]" in answer.err


@pytest.mark.parametrize("followed", [EAST], indirect=True, ids="-".join)
@pytest.mark.parametrize("name", [".argocd-source.yaml", ".argocd-source-kae-east.yaml"])
@pytest.mark.parametrize(
    ("text", "is_changed"),
    [
        pytest.param(IMAGE, lambda container: container["image"] == EVIL, id="image"),
        pytest.param(COMMAND, lambda container: container["command"] == ["sh", "-c", "id"], id="command"),
    ],
)
def test_argo_cd_would_change_the_privileged_installer_as_a_source_file_says(
    followed: Followed, name: str, text: str, is_changed: Callable[[Container], bool]
) -> None:
    with followed.holding(name, text):
        followed.wait_until("another installer", lambda: all(map(is_changed, followed.installers())))

        assert_refused(followed.check(), f"output/east/{name}")

    followed.wait_until("its own installer", lambda: not any(map(is_changed, followed.installers())))


@pytest.mark.parametrize("followed", [EAST, WEST], indirect=True, ids="-".join)
@pytest.mark.parametrize("name", ["kustomization.yml", "Kustomization"])
def test_a_second_kustomization_stops_the_engine(followed: Followed, name: str) -> None:
    with followed.holding(name, KUSTOMIZATION):
        followed.wait_until("a failure", lambda: SECOND in followed.application.explain())

        assert not followed.application.is_synced(followed.repository.head())
        assert_refused(followed.check(), f"output/{followed.cluster}/{name}")

    followed.wait_until("its end", lambda: SECOND not in followed.application.explain())


@pytest.mark.parametrize("followed", [WEST], indirect=True, ids="-".join)
def test_flux_passes_over_the_source_file_of_argo_cd_and_the_check_refuses_it_all_the_same(followed: Followed) -> None:
    before = followed.installers()

    with followed.holding(".argocd-source.yaml", IMAGE):
        commit = followed.repository.head()
        followed.wait_until("a sync", lambda: followed.application.is_synced(commit))

        assert followed.installers() == before
        assert_refused(followed.check(), "output/west/.argocd-source.yaml")
