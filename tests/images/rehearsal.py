"""Make a release twice, each in a clone, a home, a store and a registry of its own, and compare: `make release`.

The steps are those of the workflow. A certificate and a key of the rehearsal stand for those that sigstore gives it.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests import revisions
from tests.images import inputs, releases

_PLACES = (("one", {"TZ": "UTC"}, 0o022), ("another/place", {"TZ": "Asia/Shanghai"}, 0o077))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=releases.VERSION, help="the version of the tag")
    version = parser.parse_args().version
    if missing := " ".join(releases.obstacles()):
        raise SystemExit(missing)
    commit = revisions.git(inputs.ROOT, "rev-parse", "HEAD").strip()
    with tempfile.TemporaryDirectory(prefix="kae-release-") as name:
        top = Path(name)
        (top / "signer").mkdir()
        releases.make_signer(top / "signer", version)
        address = releases.free_address()
        made = []
        for folder, variables, umask in _PLACES:
            place = releases.Place(
                folder=top / folder, commit=commit, variables=variables, umask=umask, version=version
            )
            with releases.opened(place, address, top / "signer") as release:
                made.append(release.made())
                done = release.step("verify")
                if done.returncode:
                    raise SystemExit(done.stdout + done.stderr)
                sys.stdout.write(done.stdout)
                _keep(release.dist)
    for name, digest in made[0].items():
        if name != "SHA256SUMS":
            sys.stdout.write(f"{name}  {digest}\n")
    sys.stdout.write(made[0]["SHA256SUMS"])
    if made[0] != made[1]:
        raise SystemExit("The second release has other digests.")
    sys.stdout.write("Both releases have the same digests. The files are in dist/release.\n")


def _keep(dist: Path) -> None:
    target = inputs.ROOT / "dist/release"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in dist.iterdir():
        if path.is_file():
            shutil.copy(path, target)


if __name__ == "__main__":
    main()
