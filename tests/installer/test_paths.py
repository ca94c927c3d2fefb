"""Each stack has paths of its own; those of KAE are where every release has had them."""

from installer import paths
from tests.installer import homes
from tests.installer.machines import KERNEL


def every(own: paths.Own) -> dict[str, str]:
    """All paths of a stack by name."""
    stated = {name: path for name, path in vars(own).items() if isinstance(path, str)}
    return stated | {"options": own.options("sfc"), "modules": own.modules(KERNEL)}


PATHS = {
    "record": ("/var/lib/kae/driver.json", "/var/lib/kae/recipes/onload/driver.json"),
    "drivers": ("/var/lib/kae/drivers", "/var/lib/kae/recipes/onload/drivers"),
    "build": ("/var/lib/kae/build", "/var/lib/kae/recipes/onload/build"),
    "lock": ("/run/kae-driver/kae.lock", "/run/kae-driver/kae-onload.lock"),
    "changing": ("/run/kae/driver-changing", "/run/kae/recipes/onload/driver-changing"),
    "retry": ("/run/kae-driver/kae.retry", "/run/kae-driver/kae-onload.retry"),
    "links": ("/run/kae/dev", "/run/kae/recipes/onload/dev"),
    "tree": ("/opt/.kae-", "/opt/.kae.onload~"),
    "rule": ("/etc/udev/rules.d/70-kae.rules", "/etc/udev/rules.d/70-kae-onload.rules"),
    "blocked": ("/etc/modprobe.d/kae-unproved.conf", "/etc/modprobe.d/kae-onload--unproved.conf"),
    "updates": ("updates/kae", "updates/kae-onload"),
    "options": ("/etc/modprobe.d/sfc.conf", "/etc/modprobe.d/kae-onload-sfc.conf"),
    "modules": (f"/lib/modules/{KERNEL}/updates/kae", f"/lib/modules/{KERNEL}/updates/kae-onload"),
}


def test_a_recipe_has_paths_of_its_own_and_kae_those_of_every_release() -> None:
    own = zip(*(every(homes.own(recipe)).items() for recipe in ("kae", "onload")), strict=True)

    assert {name: (kae, onload) for (name, kae), (_, onload) in own} == PATHS


def test_no_two_recipes_share_a_path() -> None:
    recipes = ("kae", "a", "a-b", "unproved", "drivers")
    found = [path for name in recipes for path in every(homes.own(name)).values()]

    assert len(found) == len(set(found))
