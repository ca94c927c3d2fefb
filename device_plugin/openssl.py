"""The openssl.cnf that loads the KAE engine on top of the distribution's own settings.

A file of ours alone would lack what the distribution's has, such as [req], on which `openssl req` insists. The image's
file is included, from wherever its distribution keeps it: OpenSSL passes over an include that is not there (config(5)).
It names a section of modules to load, called differently from one distribution to the next. A section may be written in
several places, and of a key that stands twice the last one holds; so ours is named before the includes, for images that
name none, and the engine joins every section that a distribution is known to name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from device_plugin import paths

Generation = Literal["1.1", "3.0"]

_DISTRIBUTIONS = ("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf")
"""Debian, Ubuntu, Alpine, SUSE; openEuler, RHEL and their kin."""

_MODULE_SECTIONS = ("openssl_init", "default_modules", "default_conf", "openssl_def")
"""OpenSSL 3 as published and everybody's after it; RHEL 8 and openEuler with 1.1; Debian with 1.1; common in guides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What an openssl.cnf depends on."""

    generation: Generation
    libraries: bool
    """Whether the engine comes from the host, rather than with the image."""

    @property
    def name(self) -> str:
        """The variant's folder on the host."""
        return f"{self.generation}-{'host' if self.libraries else 'image'}"

    @property
    def engines(self) -> str:
        """The folder of the engine, in a container; KAE's own packages install below /usr/local."""
        root = paths.LIBRARIES if self.libraries else "/usr/local"
        return f"{root}/lib/engines-{self.generation}"


FOLDER = f"{paths.CONTAINER_RUN}/openssl"
"""Where a container finds its openssl.cnf; a folder, as in place of a missing file the runtime makes a folder."""


def variants() -> Iterator[Variant]:
    """Every variant: answers of an earlier config are replayed too, so all are kept on the host."""
    generations: tuple[Generation, ...] = ("1.1", "3.0")
    for generation in generations:
        for libraries in (False, True):
            yield Variant(generation=generation, libraries=libraries)


def text(variant: Variant) -> str:
    """The file's text; its settings are those of KAE's guide."""
    lines = [
        "# Written by the KAE device plugin: the image's own settings, and the engine kae.",
        f"openssl_conf = {_MODULE_SECTIONS[0]}",
        "[ req ]",
        "distinguished_name = req_distinguished_name",
        "[ req_distinguished_name ]",
        # What is included leaves its own last section open.
        *(line for path in _DISTRIBUTIONS for line in ("[ default ]", f".include {path}")),
        # The files of OpenSSL 3 set it, and then a missing or failing engine ends every program instead of being passed
        # over (config(5)).
        "[ default ]",
        "config_diagnostics = 0",
    ]
    for section in _MODULE_SECTIONS:
        lines += [f"[ {section} ]", "engines = kae_engines"]
    lines += [
        "[ kae_engines ]",
        "kae = kae_engine",
        "[ kae_engine ]",
        "engine_id = kae",
        f"dynamic_path = {variant.engines}/kae.so",
        "KAE_CMD_ENABLE_ASYNC = 1",
        "KAE_CMD_ENABLE_SM3 = 1",
        "KAE_CMD_ENABLE_SM4 = 1",
        "default_algorithms = ALL",
        "init = 1",
    ]
    return "\n".join(lines) + "\n"
