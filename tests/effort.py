"""How much a run tries: `make test` has few examples, `make test-long` (KAE_LONG=1) has all of them."""

import os

LONG = os.environ.get("KAE_LONG") == "1"


def examples(gate: int, long: int) -> int:
    """Return how many examples or seeds a test tries.

    `gate` is as many as it takes to notice the mutants that the test is there for. A test of parametrised seeds is
    marked `seeded`, so that `make test-long` runs it again with all of them.
    """
    return long if LONG else gate
