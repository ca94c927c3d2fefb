"""One store for all tests, with the images in it."""

from collections.abc import Iterator

import pytest

from tests import tools
from tests.images import inputs, stores

_SIZES = pytest.StashKey[dict[str, int]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, size in config.stash.get(_SIZES, {}).items():
        terminalreporter.write_line(f"{name}: {size / 1e6:.0f} MB")


@pytest.fixture(scope="session")
def store(pytestconfig: pytest.Config) -> Iterator[stores.Store]:
    """The store, in which every image has the tag 1; or the reason why there can be none."""
    tools.require_cluster(stores.obstacles())
    with stores.opened() as opened:
        opened.build(inputs.ROOT, "1")
        pytestconfig.stash[_SIZES] = {name: opened.inspected(stores.named(name))["Size"] for name in inputs.folders()}
        yield opened
