"""One store for all tests, with the images in it."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.images import inputs, stores

NAME = f"{stores.REGISTRY}/kae-device-plugin"


@pytest.fixture(scope="session")
def store() -> Iterator[stores.Store]:
    """The store; or the reason why there can be none."""
    missing = [command for command in stores.COMMANDS if shutil.which(command) is None]
    reason = "The images' tests need root: a container's mounts are real. " if os.geteuid() else ""
    if missing:
        reason += f"Debian packages are missing: apt-get install --no-install-recommends {' '.join(missing)}"
    if reason and (os.environ.get("CI") or os.environ.get("KAE_REQUIRE_CLUSTER") == "1"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    with stores.opened() as opened:
        yield opened


@pytest.fixture(scope="session")
def device_plugin(store: stores.Store) -> str:
    """The name of the device plugin's image."""
    store.build(inputs.ROOT, "1")
    return f"{NAME}:1"
