"""A machine for each test module: boots are dear, so tests share it where they can; see `boot` where they cannot."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import tools
from tests.vm import artifacts, host, machine

Boot = Callable[..., host.Host]


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> artifacts.Artifacts:
    tools.require_cluster(artifacts.obstacles())
    return artifacts.make(tmp_path_factory.mktemp("payload"))


@pytest.fixture(scope="module")
def shared(parts: artifacts.Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[host.Host]:
    """The host of all tests of a module, as the test before has left it."""
    with machine.Machine(parts, tmp_path_factory.mktemp("machine")) as guest:
        yield host.Host(guest)


@pytest.fixture
def boot(parts: artifacts.Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boot]:
    """A function that boots a fresh machine for one test; `extra` goes to QEMU, `append` to the kernel."""
    with contextlib.ExitStack() as stack:

        def booted(**options: Any) -> host.Host:
            folder = tmp_path_factory.mktemp("machine")
            return host.Host(stack.enter_context(machine.Machine(parts, folder, **options)))

        yield booted
