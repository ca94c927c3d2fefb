"""Driver images: what the labels of an image say is in it, and which nodes a plan gives it to.

docs/driver-image.md documents the labels; installer/driver-image/Dockerfile writes them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.fleet import definitions
from compiler.planning import image_matrix, kernels, plan, pools

LABEL = "device.openfuyao.com/driver-"
"""The prefix of the labels."""


PACKAGES = "file:///var/lib/kae/packages"
"""The repository in the image, as policies name it: installer/paths.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a driver image, as its labels say."""

    version: str
    kernels: frozenset[str]
    """The kernels whose modules it holds, as NFD reports them."""
    sources: frozenset[str]
    """The fields of `driver.source` that it serves, of those that take the driver from the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A pool that takes an image, and its nodes by kernel, as NFD reports it; a kernel that is listed may have none."""

    policy: definitions.Policy
    pool: pools.Pool
    nodes: Mapping[str, int]

    @property
    def source(self) -> str:
        """The name of the field of `driver.source` that is set."""
        return self.pool.driver.source.name

    @property
    def is_from_image(self) -> bool:
        """True when the source takes the driver from the image."""
        packages = self.pool.driver.source.packages
        if packages is not None:
            return any(url.rstrip("/") == PACKAGES for url in packages.repositories)
        return self.source in ("build", "prebuilt")


def content(labels: Mapping[str, str]) -> Content | None:
    """Return what labels say; None where they do not name a driver's version."""
    version = labels.get(f"{LABEL}version")
    if not version:
        return None
    return Content(
        version=version,
        kernels=frozenset(map(kernels.cleaned, labels.get(f"{LABEL}kernels", "").split())),
        sources=frozenset(labels.get(f"{LABEL}sources", "").split()),
    )


def uses(view: plan.Plan, image: str) -> Iterator[Use]:
    """Yield the pools of a cluster whose driver is installed from an image."""
    counts = image_matrix.counted(view.decisions)
    for division in view.divisions:
        for pool in division.pools:
            if division.policy.recipe.builtin and pool.image == image and pool.driver.state == "Present":
                listed = {pool.kernels.kernel: 0} if pool.kernels and pool.kernels.kernel else {}
                nodes = listed | counts[division.policy.name, pool.name]
                yield Use(policy=division.policy, pool=pool, nodes=dict(sorted(nodes.items())))


def recipes_of(view: plan.Plan, image: str) -> frozenset[str]:
    """Return the recipes but the built-in one whose drivers take an image in a cluster."""
    return frozenset(
        division.policy.recipe.name
        for division in view.divisions
        if not division.policy.recipe.builtin
        for pool in division.pools
        if image in dict(pool.images).values()
    )
