"""docs/security-claims.md claims nothing without a test."""

import re

from docs import security_claims
from tests.documentation import pages

_DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def test_every_claim_names_tests_that_are_there() -> None:
    defined = {
        name for path in (pages.ROOT / "tests").rglob("test_*.py") for name in _DEFINED.findall(path.read_text("utf-8"))
    }
    claims = [claim for chapter in security_claims.chapters() for claim in chapter["claim"]]

    assert len(claims) > 70
    assert [claim["cells"] for claim in claims if not claim["tests"]] == []
    assert {test for claim in claims for test in claim["tests"]} - defined == set()


def test_the_page_of_claims_is_what_the_data_says() -> None:
    assert pages.text_of(security_claims.PAGE) == security_claims.text(), "run `make docs`"
