"""Where the bytes come from that run as root on nodes: the repositories of images, and those of packages."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from compiler.fleet import clusters, definitions
from compiler.planning import images, kernels, overrides, pools
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


def of_pool(policy: definitions.Policy, pool: pools.Pool, mirrors: Sequence[clusters.Mirror]) -> Supply:
    """Return where the driver of a pool comes from; an image that is named after kernels is one for all of them."""
    layers = (pool.kernels.mapping if pool.kernels else None, pool.group.declared if pool.group else None)
    stated = overrides.effective(policy.installed or pool.driver, *layers)
    kernel = (pool.kernels.kernel if pool.kernels else None) or ""
    found: set[tuple[str, str]] = set()
    for name, image in pool.images:
        written = images.of(stated.images[name], mirrors)
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


def exchanged(was: pools.Pool | None, now: pools.Pool | None) -> tuple[str, ...]:
    """Return the images with the driver of a pool whose content another pool does not have."""
    known = set(map(_content, _holding(was)))
    return tuple(image for image in _holding(now) if _content(image) not in known)


def doubts(was: pools.Pool | None, now: pools.Pool | None) -> Iterator[str]:
    """Yield the settings for which the content of a driver may differ, though its version and its source are equal.

    Another repository may hold another image by the same tag; by the same digest it holds the same one.
    """
    if was is None or now is None:
        return
    if list(map(_content, _holding(was))) != list(map(_content, _holding(now))):
        yield _image_setting(was, now)
    if _repositories(was.driver.source) != _repositories(now.driver.source):
        yield "repositories"
    before, after = was.driver.source.packages, now.driver.source.packages
    if before is not None and after is not None and before.gpg_check and not after.gpg_check:
        yield "gpgCheck"


def _image_setting(was: pools.Pool, now: pools.Pool) -> str:
    """Return the setting by which images differ: their names and versions, their repository, or a mirror."""
    texts = [list(map(images.unqualified, _holding(pool))) for pool in (was, now)]
    if texts[0] != texts[1]:
        return "image"
    written = [[images.reference(pool.driver.images[name]) for name, _ in pool.images] for pool in (was, now)]
    return "repository" if written[0] != written[1] else "mirrors"


def _holding(pool: pools.Pool | None) -> tuple[str, ...]:
    """Return the images that hold the driver of a pool."""
    return (pool.image, *(image for _, image in pool.images[1:])) if pool else ()


def _content(image: str) -> str:
    """Return what tells the content of an image: its digest, or else where it is and its tag."""
    return image.partition("@")[2] or image
