"""Read the quantities of Kubernetes, which the API server writes in a form of its own: 1000 is 1k.

The forms are those of k8s.io/apimachinery's pkg/api/resource: a decimal number with a suffix or an exponent.
"""

import re

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO = 9
"""The smallest amount is a billionth; smaller ones are rounded up to it."""


def nano(text: str) -> int:
    """Return a quantity in billionths; raises `ValueError` for what is none."""
    found = _FORM.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"'{text}' is no quantity")
    sign, whole, part, suffix, binary, exponent = found.groups(default="")
    amount: int = int(whole + part) * (1024 ** ("KMGTPE".index(binary) + 1) if binary else 1)
    power = (_POWERS[suffix] if suffix else int(exponent or 0)) + _NANO - len(part)
    amount = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    return -amount if sign == "-" else amount


def whole(text: str) -> int:
    """Return a quantity as a whole number, rounded up; raises `ValueError` for what is none."""
    unit: int = 10**_NANO
    return -(-nano(text) // unit)
