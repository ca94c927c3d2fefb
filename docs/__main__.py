"""`python -m docs` writes the generated pages of docs/, and the examples of `kae rule`; --check compares them."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs import catalogue, commands, messages, metrics, reference, security_claims, support, tour

MADE: Mapping[Path, Callable[[], str]] = {
    reference.REFERENCE: reference.policy_reference,
    reference.RECIPES: reference.recipe_reference,
    reference.FINDINGS: reference.findings,
    reference.EXAMPLES: reference.examples,
    **{page.PAGE: page.text for page in (catalogue, commands, messages, metrics, security_claims, support, tour)},
}


def main() -> None:
    """Write the pages; with --check only compare them."""
    for path, made in MADE.items():
        text = made()
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8", newline="\n")
        elif path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path.name} is not what the code says; run `make docs`.")


if __name__ == "__main__":
    main()
