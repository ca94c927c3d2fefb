"""Prints which packages the Python that runs this has installed, with their licences: THIRD_PARTY.txt of an image."""

import re
from importlib import metadata

_TEXT = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
_OWN = "kae-compiler"


def _licence(found: metadata.PackageMetadata) -> str:
    """Return the licence as the package's metadata name it (PEP 639, before it a field or classifiers)."""
    classifiers = [name.rpartition(" :: ")[2] for name in found.get_all("Classifier", ()) if name.startswith("License")]
    stated = (found.get("License") or "").strip()
    short = stated if stated and "\n" not in stated else ""
    return found.get("License-Expression") or short or ", ".join(classifiers) or "see its text"


def _texts(package: metadata.Distribution) -> list[str]:
    """Return the licence texts in the package's .dist-info, by their paths."""
    paths = sorted(path for path in package.files or () if ".dist-info/" in str(path) and _TEXT.search(path.name))
    return [f"--- {path}\n{path.read_text(encoding='utf-8').strip()}\n" for path in paths]


def _authors(found: metadata.PackageMetadata) -> str:
    """Return who wrote a package, and where its source is, as a licence such as MIT wants to be told."""
    people = found.get("Author-email") or found.get("Author") or "unknown"
    links = [link.partition(", ")[2] for link in found.get_all("Project-URL", ())]
    return f"Authors: {people}. Links: {' '.join(links) or 'none'}"


def main() -> None:
    """Print every package by name, then the texts."""
    packages = sorted(metadata.distributions(), key=lambda package: package.name.lower())
    others = [package for package in packages if package.name.lower() != _OWN]
    print("Packages in this image that others wrote; their licence texts follow. Those of the base image are in")
    print("/usr/share/doc and /usr/share/licenses.\n")
    for package in others:
        print(f"{package.name} {package.version}: {_licence(package.metadata)}")
    for package in others:
        print(f"\n=== {package.name} {package.version}\n")
        print("\n".join(_texts(package)) or f"Its package holds no licence text. {_authors(package.metadata)}")


if __name__ == "__main__":
    main()
