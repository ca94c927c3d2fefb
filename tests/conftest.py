"""What every test stands on: the same examples each time, and the folder of the repository."""

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The folder that holds compiler/, templates/ and schemas/."""
    return Path(__file__).resolve().parents[1]
