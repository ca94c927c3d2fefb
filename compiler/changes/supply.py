"""Where the bytes come from that run as root on nodes: the repositories of images, and those of packages."""

from collections.abc import Iterable, Sequence

import msgspec

from compiler.fleet import clusters
from compiler.planning import images, kernels, pools
from runtime import driver_config

OWN = "the nodes' own repositories"
"""Where packages come from if a source names no repository."""
_SAFE, _PLAIN = "https://", "http://"


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """Where what runs on some nodes comes from."""

    images: frozenset[tuple[str, str]] = frozenset()
    """The names of images in their recipe, each with its repository at the mirror of the cluster."""
    packages: frozenset[str] = frozenset()
    """The repositories of packages; empty where the driver's source takes none."""
    is_unchecked: bool = False
    """True where packages need no signature."""
    is_forced: bool = False
    """True where a driver is swapped under an interface that carries the node's own traffic."""

    @property
    def repositories(self) -> frozenset[str]:
        """The repositories of all images."""
        return frozenset(repository for _, repository in self.images)

    def new_images(self, before: "Supply") -> frozenset[str]:
        """Return the repositories of images that came from another one before; a new image may be from any of them."""
        known: dict[str, set[str]] = {}
        for name, repository in before.images:
            known.setdefault(name, set()).add(repository)
        return frozenset(
            repository for name, repository in self.images if repository not in known.get(name, before.repositories)
        )

    def new_packages(self, before: "Supply") -> frozenset[str]:
        """Return the repositories of packages that are new; to reach one by https:// is no other one."""
        plain = {url.replace(_PLAIN, _SAFE, 1) for url in before.packages if url.startswith(_PLAIN)}
        return self.packages - before.packages - plain


def joined(supplies: Iterable[Supply]) -> Supply:
    """Return where what runs on any of some nodes comes from."""
    every = tuple(supplies)
    return Supply(
        images=frozenset().union(*(each.images for each in every)),
        packages=frozenset().union(*(each.packages for each in every)),
        is_unchecked=any(each.is_unchecked for each in every),
        is_forced=any(each.is_forced for each in every),
    )


def of_pool(pool: pools.Pool, mirrors: Sequence[clusters.Mirror]) -> Supply:
    """Return where the driver of a pool comes from; an image that is named after kernels is one for all of them."""
    kernel = (pool.kernels.kernel if pool.kernels else None) or ""
    found: set[tuple[str, str]] = set()
    for name, image in pool.images:
        written = images.of(pool.stated.images[name], mirrors)
        # A mirror may hold the image of one kernel alone.
        found.add((name, images.name(written if kernels.filled(written, kernel) == image else image)))
    packages = pool.driver.source.packages
    return Supply(
        images=frozenset(found),
        packages=_repositories(pool.driver.source),
        is_unchecked=packages is not None and not packages.gpg_check,
        is_forced=bool(pool.driver.config.get("network_force")),
    )


def _repositories(source: driver_config.Source) -> frozenset[str]:
    part = source.packages or source.build
    return frozenset(url.rstrip("/") for url in part.repositories or (OWN,)) if part else frozenset()
