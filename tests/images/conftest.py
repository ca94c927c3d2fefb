"""One store for all tests, with the images in it."""

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.images import inputs, stores

_SIZES = pytest.StashKey[dict[str, int]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says how large the images are, with their base."""
    for name, size in config.stash.get(_SIZES, {}).items():
        terminalreporter.write_line(f"{name}: {size / 1e6:.0f} MB")


@pytest.fixture(scope="session")
def store(pytestconfig: pytest.Config) -> Iterator[stores.Store]:
    """The store, in which every image has the tag 1; or the reason why there can be none."""
    missing = [command for command in stores.COMMANDS if shutil.which(command) is None]
    reason = "The images' tests need root: a container's mounts are real. " if os.geteuid() else ""
    if missing:
        reason += f"Debian packages are missing: apt-get install --no-install-recommends {' '.join(missing)}"
    if reason and (os.environ.get("CI") or os.environ.get("KAE_REQUIRE_CLUSTER") == "1"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    with stores.opened() as opened:
        opened.build(inputs.ROOT, "1")
        inspected = {name: json.loads(opened.inspected(stores.named(name)))[0] for name in inputs.folders()}
        pytestconfig.stash[_SIZES] = {name: image["Size"] for name, image in inspected.items()}
        yield opened
