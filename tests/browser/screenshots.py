"""Take the screenshots of docs/images anew: python -m tests.browser.screenshots."""

import shutil
import tempfile
from pathlib import Path

from tests import in_process, revisions
from tests.browser import chromium
from tests.cli import diffs

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium.page() as page:
        for name, page_file in (("report-fleet", _fleet(Path(folder))), ("report-change", _change(Path(folder)))):
            page.resize(1200, 980 if name == "report-change" else 860)
            page.open(page_file.as_uri())
            page.screenshot(ROOT / f"docs/images/{name}.png")
        page.resize(390, 844)
        page.screenshot(ROOT / "docs/images/report-phone.png")
        page.resize(1000, 860)
        page.call("Emulation.setEmulatedMedia", media="print")
        page.screenshot(ROOT / "docs/images/report-print.png")


def _fleet(folder: Path) -> Path:
    place = folder / "fleet"
    for name in ("policies", "inventory"):
        shutil.copytree(ROOT / name, place / name)
    return _report(place)


def _change(folder: Path) -> Path:
    place = shutil.copytree(diffs.EXAMPLE, folder / "rollout")
    revisions.commit(place)
    diffs.change(place, "canary")
    return _report(place, "HEAD")


def _report(folder: Path, *revision: str) -> Path:
    answer = in_process.kae(folder, "report", "-q", "--html", "page.html", *revision)
    assert answer.code == 0, answer.err
    return folder / "page.html"


if __name__ == "__main__":
    main()
