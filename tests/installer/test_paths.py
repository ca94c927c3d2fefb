"""Each stack has paths of its own; those of KAE are where every release has had them."""

import dataclasses

from installer import paths

KERNEL = "5.10.0-216.0.0.115.oe2203sp4.aarch64"


def every(own: paths.Own) -> dict[str, str]:
    """All paths of a stack by name."""
    names = [name for name, value in vars(paths.Own).items() if isinstance(value, property) and name[0] != "_"]
    return {name: getattr(own, name) for name in names} | {
        "options": own.options("sfc"),
        "modules": own.modules(KERNEL),
    }


def test_the_paths_of_kae_are_those_of_every_release() -> None:
    assert every(paths.KAE) == {
        "record": "/var/lib/kae/driver.json",
        "drivers": "/var/lib/kae/drivers",
        "build": "/var/lib/kae/build",
        "lock": "/run/kae/driver.lock",
        "changing": "/run/kae/driver-changing",
        "retry": "/run/kae/retry",
        "links": "/run/kae/dev",
        "tree": ".kae-",
        "rule": "/etc/udev/rules.d/70-kae.rules",
        "blocked": "/etc/modprobe.d/kae-unproved.conf",
        "updates": "updates/kae",
        "options": "/etc/modprobe.d/sfc.conf",
        "modules": f"/lib/modules/{KERNEL}/updates/kae",
    }


def test_a_recipe_has_folders_and_files_of_its_own() -> None:
    assert every(paths.Own("onload")) == {
        "record": "/var/lib/kae/recipes/onload/driver.json",
        "drivers": "/var/lib/kae/recipes/onload/drivers",
        "build": "/var/lib/kae/recipes/onload/build",
        "lock": "/run/kae/recipes/onload/driver.lock",
        "changing": "/run/kae/recipes/onload/driver-changing",
        "retry": "/run/kae/recipes/onload/retry",
        "links": "/run/kae/recipes/onload/dev",
        "tree": ".kae.onload~",
        "rule": "/etc/udev/rules.d/70-kae-onload.rules",
        "blocked": "/etc/modprobe.d/kae-onload--unproved.conf",
        "updates": "updates/kae-onload",
        "options": "/etc/modprobe.d/kae-onload-sfc.conf",
        "modules": f"/lib/modules/{KERNEL}/updates/kae-onload",
    }


def test_no_two_recipes_share_a_path() -> None:
    stacks = [dataclasses.replace(paths.KAE, recipe=name) for name in (None, "a", "a-b", "unproved", "drivers")]
    found = [path for own in stacks for path in every(own).values()]

    assert len(found) == len(set(found))
