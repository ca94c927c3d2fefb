"""The openssl.cnf that loads the KAE engine on top of the distribution's own settings.

On its own it would lack sections such as [req], which `openssl req` needs. So it includes the image's file, from every
place where a distribution keeps it: OpenSSL skips an include that does not exist (config(5)). The image's file names a
section of modules to load, and each distribution calls it differently. A section may appear in several places, and the
last value of a key holds. So this file names its section before the includes, for images that name none, and adds the
engine to every section that a distribution is known to name.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from device_plugin.host import paths

Generation = Literal["1.1", "3.0"]

_DISTRIBUTIONS = ("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf")
"""Debian, Ubuntu, Alpine, SUSE; openEuler, RHEL and their derivatives."""

_MODULE_SECTIONS = ("openssl_init", "default_modules", "default_conf", "openssl_def")
"""OpenSSL 3, upstream and in distributions; RHEL 8 and openEuler with 1.1; Debian with 1.1; common in guides."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The settings on which an openssl.cnf depends."""

    generation: Generation
    libraries: bool
    """True when the engine comes from the host, false when the image has it."""

    @property
    def name(self) -> str:
        """Return the name of the variant's folder on the host."""
        return f"{self.generation}-{'host' if self.libraries else 'image'}"

    @property
    def engines(self) -> str:
        """Return the folder of the engine in a container; KAE's own packages install below /usr/local."""
        root = paths.LIBRARIES if self.libraries else "/usr/local"
        return f"{root}/lib/engines-{self.generation}"


FOLDER = f"{paths.CONTAINER_RUN}/openssl"
"""The folder of openssl.cnf in a container. It is a folder because the runtime creates one for a missing file."""


def variants() -> Iterator[Variant]:
    """Yield every variant: the kubelet also replays answers of an earlier config, so the host keeps them all."""
    generations: tuple[Generation, ...] = ("1.1", "3.0")
    for generation in generations:
        for libraries in (False, True):
            yield Variant(generation=generation, libraries=libraries)


_LAST = MappingProxyType({"default_algorithms": "ALL", "init": "1"})
"""OpenSSL obeys a section in its order, and these two start the engine (int_engine_configure of eng_cnf.c)."""

_GUIDE = MappingProxyType({"KAE_CMD_ENABLE_ASYNC": "1", "KAE_CMD_ENABLE_SM3": "1", "KAE_CMD_ENABLE_SM4": "1"})


def text(variant: Variant, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the file's text; `settings` of the engine are over those of KAE's guide."""
    engine = {"engine_id": "kae", "dynamic_path": f"{variant.engines}/kae.so"} | _GUIDE
    engine |= {name: value for name, value in settings.items() if name not in _LAST}
    engine |= {name: settings.get(name, default) for name, default in _LAST.items()}
    lines = [
        "# Written by the KAE device plugin: the image's own settings, and the engine kae.",
        f"openssl_conf = {_MODULE_SECTIONS[0]}",
        "[ req ]",
        "distinguished_name = req_distinguished_name",
        "[ req_distinguished_name ]",
        # An included file leaves its last section open.
        *(line for path in _DISTRIBUTIONS for line in ("[ default ]", f".include {path}")),
        # The files of OpenSSL 3 set it, and then a missing or failing engine ends every program instead of being
        # skipped (config(5)).
        "[ default ]",
        "config_diagnostics = 0",
    ]
    for section in _MODULE_SECTIONS:
        lines += [f"[ {section} ]", "engines = kae_engines"]
    lines += [
        "[ kae_engines ]",
        "kae = kae_engine",
        "[ kae_engine ]",
        *(f"{name} = {value}" for name, value in engine.items()),
    ]
    return "\n".join(lines) + "\n"
