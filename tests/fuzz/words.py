"""Strings, numbers and values of other types: likely ones for the fields, and unlikely ones for the readers."""

import json
import random
from typing import Any

_NAMES = """
    a tls east west lab pool web-1 a.b.c storage kae-driver A a_b n1 0 9 * east-* *st [ew]ast e?st [!l]ab [ e[a
    app app.kubernetes.io/name device.openfuyao.com/policy kubernetes.io/hostname kubernetes.io/os dedicated zone
    openfuyao.com/kae.present openfuyao.com/kae.deploy.driver openfuyao.com/kae.hpre.pf example.com/app gpu
    node.kubernetes.io/not-ready node-role.kubernetes.io/control-plane openfuyao.com/kae.hpre hugepages-2Mi
    hisi_hpre hisi_sec2 hisi_zip hisi_qm uacce pf_q_num uacce_mode vfs_num perf_mode cpu memory NoSchedule
    INSTALL_POLICY IfNotPresent Always NODE_NAME HTTP_PROXY GitRepository OCIRepository Bucket master arm64
"""
_IMAGES = """
    latest 2.2.0 1.4.1 v0.16.4 v0.17.3 v0.18.0 0.19.0 v0.19.0-minimal v0.16.4.5 sha256:abc @ a@b : Kae/Driver a//b a/
    sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 kae-driver-installer:1.0 registry.k8s.io
    r.io/kae@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 cr.openfuyao.cn/openfuyao
    registry.example.com:5000/team 1.25 1.29 1.30 v1.31.2 1.34 1.24 1.999 v1.31.4+k3s1 v1.31.4
"""
_FORMS = r"""
    10% 0% 100% 1% 101% 0m 10m 500m 64Mi 1Gi 0.5 1e3 2 1h30m 90s h1 true false null 1 -1 1.5 1.10
    https://git.example.com/kae.git ssh://git@example.com/kae.git git@example.com:team/kae.git file:///srv/kae
    http://a https://10.0.0.1:6443 https://a/?b=${C}#d oci://r.io/a http://proxy:3128 kae@example.com
    main refs/heads/a output/east ./a /a a/../b .. kae-uacce-${DRIVER_VERSION} ${KERNEL_VERSION}
    5.10.0-182.oe2203 5.10.0-182.0.0.95.oe2203sp3.aarch64 ^5\.10\. (?i)oe2403 (a+)+$
    rest canary kp920-02 2.3.0-${KERNEL_FULL_VERSION} kae-${KERNEL_XYZ} ${KERNEL_XYZ} oe2203 .* ^$ (?!a) (a{1000}){1000}
    oe2203sp(1|2 \C [[:^alpha:]] (?P<a>b) \pN x{2,1} -oe2203- 5.10.0+
"""
_LENGTHS = ("", *("x" * length for length in (30, 31, 50, 63, 64, 100, 253, 254)), "a." * 31 + "b", "a/" + "x" * 63)
PLAUSIBLE = (*f"{_NAMES}{_IMAGES}{_FORMS}".split(), "openEuler 22.03 (LTS-SP3)", *_LENGTHS)
"""Likely values of fields, also at the limits of their length."""

_YAML = r"""
    - -- --- ... ? : a: ! !! &a *a | > % @ ` { } [ ] {} [] , ' " '' "" it's \ \n a\ \u0000 # -a #a a: a#b
    y n yes No ON off True NULL ~ = << . .5 5. 1_000 0x1f 0o17 017 0b1 1e5 19e5 +1 1:30 12:30:45 -1-
    2001-01-01 2001-01-01T00:00:00Z .inf -.Inf .nan NaN
    ${X} ${X $X $$ $(X) {{a}} {%a%} {#a#} %s %(a)s ../.. /etc/passwd a/b --help <script> &amp;
"""
_BLANKS = ("\n", "a\nb", "a\n", "\n\na", "a\r\nb", "\t", "a\tb", " ", " a", "a ", "a: b", "a #b", "# a", "- a", "- - a")
_MARKS = ("é", "ß", "日本語", "a\u0301", "\u0130", "\u0131", "\u200b", "\u202eabc", "\U0001d518", "\ue000", "\ufffd")
_CONTROLS = ("\x00", "\x01", "\x0b", "\x1b[31m", "\x7f", "\x85", "\u00a0", "\u2028", "\ufeff", "\ud800")
_LONG = ("x" * 1000, "x" * 5000, "a b " * 400, "é" * 500, "\n" * 50, " " * 300, "[" * 100, "a: " * 100, "😀" * 60)
_CODE = ("{{ a }}", "{% a %}", "{# a #}", "'; rm -rf /", "? a", "!!str a", "%YAML 1.1", 'say "a"', "{a: b}")
ODD = (*_YAML.split(), *_BLANKS, *_MARKS, *_CONTROLS, *_LONG, *_CODE)
"""Strings that are hard to read, write or show."""

_BORDERS = (0, 1, 2, 63, 64, 65, 100, 128, 129, 256, 512, 961, 1024, 1025, 3600, 3601, 65535, 65536, 86400, 86401)
_SIZES = (-1, -(2**31), 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**17, 10**18, 10**40)
_FLOATS = (0.0, 1.0, 0.5, -0.5, 10.0, 1e-7, 1e16, 1e22, 1e308, 5e-324, 0.1 + 0.2)
NUMBERS = (*_BORDERS, *_SIZES, *_FLOATS, float("inf"), float("-inf"), float("nan"))
"""Numbers at the borders of fields, and of the types that readers keep them in."""

_SAMPLES = ("null", "true", "false", '""', "0", "1.5", "[]", "{}", "[null]", '{"": null}', "[[]]", "[{}]", '{"a": 1}')


def sample(chance: random.Random) -> Any:
    """A small value of some type, made anew, as mutations change what they find in place."""
    return json.loads(chance.choice(_SAMPLES))
