"""What Argo CD and Flux make of a file in a cluster's folder that the compiler did not write; the check stops it first.

A pull request that changes nothing but output/ shows a reviewer folded, generated text, so the check has to find it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests import in_process, project
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, following

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
EAST, WEST = ("east", "argocd"), ("west", "flux")

Container = Mapping[str, object]


class Followed(following.Followed):
    def installers(self) -> Sequence[Container]:
        wanted = [item for item in self.manifests if (item.component, item.kind) == ("driver", "DaemonSet")]
        live = [self.objects.get(item.data) for item in wanted]
        return [item["spec"]["template"]["spec"]["containers"][0] for item in live]

    def check(self) -> in_process.Answer:
        return in_process.kae(self.repository.folder, "compile", "--check", "--no-cache", "--cluster", self.cluster)

    @contextlib.contextmanager
    def holding(self, name: str, text: str) -> Iterator[None]:
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


@pytest.fixture(scope="module")
def followed(
    request: pytest.FixtureRequest,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    cluster, engine = request.param
    repository = following.example(tmp_path_factory.mktemp(cluster) / "fleet", cluster, engine)
    with following.follow(Followed, engines[engine], repository, objects, cluster=cluster) as made:
        assert made.check().code == 0
        yield made


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
def test_flux_passes_over_the_source_file_of_argo_cd_which_the_check_refuses(followed: Followed) -> None:
    before = followed.installers()

    with followed.holding(".argocd-source.yaml", IMAGE):
        commit = followed.repository.head()
        followed.wait_until("a sync", lambda: followed.application.is_synced(commit))

        assert followed.installers() == before
        assert_refused(followed.check(), "output/west/.argocd-source.yaml")
