"""The site of docs/ in a real browser: a newcomer's questions, and what no page may have."""

import functools
import html.parser
import http.server
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import tools
from tests.browser import chromium

ROOT = Path(__file__).resolve().parents[2]
RESULTS = 5
"""How many pages that a search finds somebody sees at once."""


class Question(NamedTuple):
    """What newcomers ask, the words that they type, and the pages that answer."""

    asked: str
    words: str
    pages: tuple[str, ...]


QUESTIONS = (
    Question("How do I try it without a cluster?", "without a cluster", ("quick-start", "")),
    Question(
        "Which image do I have to build, and by which command?", "build images", ("first-rollout", "driver-image")
    ),
    Question("How do I bring a new driver to one node first?", "canary", ("rollouts", "quick-start")),
    Question("How do I see what a pull request does to my nodes?", "pull request comment", ("reviewing",)),
    Question("How do I roll back?", "rollback", ("rollouts", "operations")),
    Question("How do I keep the driver away from one node, at once?", "opt out node", ("operations",)),
    Question("How do I stop a rollout that goes wrong?", "stop rollout", ("rollouts", "operations")),
    Question("How do I remove the driver from the hosts?", "remove driver", ("operations",)),
    Question("How does my pod get a device?", "request device pod", ("using-kae",)),
    Question("What does this finding mean, and may I accept it?", "accept finding", ("operations", "findings")),
)
"""Written before the pages."""


class Document(html.parser.HTMLParser):
    """The links of a page, and what links can name in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    mkdocs = tools.require(str(ROOT / ".venv/site/bin/mkdocs"), "site", "make")
    folder = tmp_path_factory.mktemp("site")
    command = (mkdocs, "build", "--quiet", "--strict", "--site-dir", str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    with chromium.page() as page:
        yield page


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[str, Document]:
    return {
        path.relative_to(site).as_posix().removesuffix("index.html"): Document(path.read_text("utf-8"))
        for path in site.rglob("*.html")
    }


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("asked", QUESTIONS, ids=[asked.words for asked in QUESTIONS])
def test_a_search_leads_to_the_answer_by_one_click(
    browser: chromium.Page, address: str, asked: Question, width: int
) -> None:
    browser.resize(width, 900)
    browser.visit(address)
    items = f"[...document.querySelectorAll('.md-search-result__item')].slice(0, {RESULTS})"
    links = f"{items}.map((item) => item.querySelector('a'))"
    answers = "|".join(f"/{page}/" if page else "[0-9]/" for page in asked.pages)
    answering = f"{links}.find((link) => /({answers.replace('/', chr(92) + '/')})[?#]/.test(link.href + '#'))"

    browser.value("document.querySelector('.md-header label[for=__search]').click()")
    browser.value("document.querySelector('.md-search__input').focus()")
    # The index arrives some time after the page.
    browser.wait("!!document.querySelector('.md-search-result__meta')?.textContent.includes('search')")
    browser.call("Input.insertText", text=asked.words)
    browser.wait(f"{links}.length")
    target = str(browser.wait(f"{answering}?.href"))

    # Later, as the page that answers is then another one.
    browser.value(f"setTimeout(() => {answering}.click(), 300) && 0")
    browser.wait_for_address(target.partition("?")[0])


def test_no_page_complains_is_too_wide_for_a_phone_or_asks_another_host(
    browser: chromium.Page, address: str, documents: dict[str, Document]
) -> None:
    browser.resize(390, 844, dark=True)
    for page in documents:
        browser.events.clear()

        browser.visit(address + page)

        assert browser.faults() == [], page
        assert [url for url in browser.requests() if not url.startswith((address, "data:"))] == [], page
        assert browser.value("document.documentElement.scrollWidth") <= 390, page
        assert (
            browser.value("[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)") == []
        )


@pytest.mark.parametrize("dark", [False, True])
def test_the_site_is_light_or_dark_as_the_system_is(browser: chromium.Page, address: str, dark: bool) -> None:
    browser.resize(1280, 900, dark=dark)

    browser.visit(address)

    assert browser.value("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")


def test_every_link_and_image_of_the_site_is_there(site: Path, documents: dict[str, Document]) -> None:
    lost = [
        (page, link)
        for page, document in documents.items()
        # The page of what is not found has absolute links, to the address of the site.
        if page != "404.html"
        for link in document.links
        if not urllib.parse.urlsplit(link).scheme and not _is_there(site, documents, page, link)
    ]

    assert lost == []
    assert sum(len(document.links) for document in documents.values()) > 1000


def _is_there(site: Path, documents: dict[str, Document], page: str, link: str) -> bool:
    target = urllib.parse.urlsplit(urllib.parse.urljoin(f"http://site/{page}", link))
    path = urllib.parse.unquote(target.path).lstrip("/")
    if path in documents:
        return urllib.parse.unquote(target.fragment) in documents[path].anchors
    return (site / path).is_file()
