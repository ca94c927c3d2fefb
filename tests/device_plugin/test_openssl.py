"""The openssl.cnf that containers get: read by OpenSSL itself, on top of what a distribution's file says."""

import subprocess
from pathlib import Path

import pytest

from device_plugin.kubelet import openssl
from tests import tools

VARIANTS = pytest.mark.parametrize("variant", tuple(openssl.variants()), ids=lambda variant: variant.name)
DISTRIBUTION = """
HOME = .
openssl_conf = {section}
config_diagnostics = 1

[ {section} ]
providers = provider_sect
ssl_conf = ssl_sect

[ provider_sect ]
default = default_sect
legacy = legacy_sect

[ default_sect ]
activate = 1

[ legacy_sect ]
activate = 1

[ ssl_sect ]
system_default = system_default_sect

[ system_default_sect ]
Ciphersuites = TLS_AES_128_GCM_SHA256

[ req ]
distinguished_name = dn
default_bits = 1024
[ dn ]
[ last ]
x = 1
"""
"""A distribution's file, with two additions that show whether OpenSSL read it."""

VARIANT = openssl.Variant(generation="3.0", libraries=True)


def written(folder: Path, variant: openssl.Variant, *, section: str = "", second: bool = False) -> Path:
    """Our file, which includes a distribution's in this folder, or none, in place of those of this machine."""
    first_path, second_path = folder / "first.cnf", folder / "second.cnf"
    if section:
        (second_path if second else first_path).write_text(DISTRIBUTION.format(section=section))
    text = openssl.text(variant)
    text = text.replace("/etc/ssl/openssl.cnf", str(first_path))
    text = text.replace("/etc/pki/tls/openssl.cnf", str(second_path))
    assert "/etc/" not in text
    file = folder / "openssl.cnf"
    file.write_text(text)
    return file


def run(conf: Path, *arguments: str, engines: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools.require("openssl", "openssl"), *arguments],
        env={"PATH": "/usr/bin:/bin", "OPENSSL_CONF": str(conf), "OPENSSL_ENGINES": engines},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=conf.parent,
    )


def request(conf: Path) -> subprocess.CompletedProcess[str]:
    """Asks for a certificate, which needs a section that only a whole openssl.cnf has."""
    return run(
        *(conf, "req", "-new", "-x509", "-nodes", "-subj", "/CN=kae", "-newkey", "ec"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", "key.pem", "-out", "cert.pem"),
    )


@VARIANTS
def test_a_certificate_can_be_made_on_this_machine_without_the_engine(variant: openssl.Variant, tmp_path: Path) -> None:
    file = tmp_path / "openssl.cnf"
    file.write_text(openssl.text(variant))

    answer = request(file)

    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "cert.pem").read_text().startswith("-----BEGIN CERTIFICATE-----")


@VARIANTS
def test_an_image_without_any_openssl_cnf_works(variant: openssl.Variant, tmp_path: Path) -> None:
    answer = request(written(tmp_path, variant))

    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("section", ["openssl_init", "default_modules", "default_conf", "openssl_def"])
@pytest.mark.parametrize("second", [False, True], ids=["Debian", "RHEL"])
def test_what_the_image_says_holds_although_the_engine_is_missing(section: str, second: bool, tmp_path: Path) -> None:
    conf = written(tmp_path, VARIANT, section=section, second=second)

    providers = run(conf, "list", "-providers")

    assert providers.returncode == 0, providers.stderr
    assert "legacy" in providers.stdout
    assert request(conf).returncode == 0


def test_the_settings_of_the_image_for_tls_hold(tmp_path: Path) -> None:
    plain = run(written(tmp_path, VARIANT), "ciphers", "-s")

    limited = run(written(tmp_path, VARIANT, section="openssl_init"), "ciphers", "-s")

    assert "TLS_AES_256_GCM_SHA384:" in plain.stdout
    assert "TLS_AES_256_GCM_SHA384:" not in limited.stdout
    assert "TLS_AES_128_GCM_SHA256:" in limited.stdout


@pytest.mark.parametrize("section", ["", "openssl_init", "default_modules", "default_conf", "openssl_def"])
def test_the_engine_is_asked_for_in_the_section_that_the_image_names(section: str, tmp_path: Path) -> None:
    conf = written(tmp_path, VARIANT, section=section)
    # With errors to be told, the missing engine shows that it was looked for.
    conf.write_text(conf.read_text().replace("config_diagnostics = 0", "config_diagnostics = 1"))

    answer = run(conf, "version")

    assert answer.returncode == 1
    assert "/opt/kae/lib/engines-3.0/kae.so" in answer.stderr


def test_a_policy_changes_the_settings_of_the_engine_and_the_engine_starts_last() -> None:
    text = openssl.text(VARIANT, {"KAE_CMD_ENABLE_SM4": "0", "KAE_CMD_ENABLE_RSA": "1", "default_algorithms": "RSA,EC"})

    _, _, engine = text.partition("[ kae_engine ]\n")
    assert engine.splitlines() == [
        "engine_id = kae",
        "dynamic_path = /opt/kae/lib/engines-3.0/kae.so",
        "KAE_CMD_ENABLE_ASYNC = 1",
        "KAE_CMD_ENABLE_SM3 = 1",
        "KAE_CMD_ENABLE_SM4 = 0",
        "KAE_CMD_ENABLE_RSA = 1",
        "default_algorithms = RSA,EC",
        "init = 1",
    ]


def test_two_distributions_files_do_not_mix_their_settings(tmp_path: Path) -> None:
    conf = written(tmp_path, VARIANT, section="openssl_init")
    # openssl_conf of the second stands before any section of its own.
    (tmp_path / "second.cnf").write_text(
        "openssl_conf = mine\n[ mine ]\nproviders = one\n[ one ]\nbase = b\n[ b ]\nactivate = 1\n"
    )

    answer = run(conf, "list", "-providers")

    assert answer.returncode == 0, answer.stderr
    assert "base" in answer.stdout
    assert "legacy" not in answer.stdout


def test_every_variant_has_a_folder_and_engines_of_its_own() -> None:
    found = {(variant.name, variant.engines) for variant in openssl.variants()}

    assert found == {
        ("1.1-image", "/usr/local/lib/engines-1.1"),
        ("1.1-host", "/opt/kae/lib/engines-1.1"),
        ("3.0-image", "/usr/local/lib/engines-3.0"),
        ("3.0-host", "/opt/kae/lib/engines-3.0"),
    }


@VARIANTS
def test_the_engine_is_told_what_the_guide_of_kae_tells_it(variant: openssl.Variant) -> None:
    _, _, engine = openssl.text(variant).partition("[ kae_engine ]\n")

    assert dict(line.split(" = ") for line in engine.splitlines()) == {
        "engine_id": "kae",
        "dynamic_path": f"{variant.engines}/kae.so",
        "KAE_CMD_ENABLE_ASYNC": "1",
        "KAE_CMD_ENABLE_SM3": "1",
        "KAE_CMD_ENABLE_SM4": "1",
        "default_algorithms": "ALL",
        "init": "1",
    }
