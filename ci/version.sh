#!/bin/sh
# Prints the version of this checkout as Python writes it (PEP 440). It is that of git's tag: 0.2.0 at the tag v0.2.0,
# 0.2.0+5.g1a2b3c4d5e6f five commits later, and 0+g1a2b3c4d5e6f where no release is behind. KAE_VERSION, where it is set,
# stands for it: sources without git, such as an archive of a tag, have none.
set -eu
cd "$(dirname "$0")/.."
if [ -n "${KAE_VERSION:-}" ]; then
    echo "$KAE_VERSION"
# Sources that lie in another repository have not its version.
elif [ "$(git rev-parse --show-cdup 2>&1)" != "" ]; then
    echo 'These sources are no checkout of git, so their version is unknown: set KAE_VERSION, as in KAE_VERSION=0.2.0.' >&2
    echo 0+unknown
else
    # An abbreviation of a fixed length is the same in every clone.
    git describe --tags --match 'v[0-9]*.[0-9]*.[0-9]*' --always --dirty --abbrev=12 | sed \
        -e 's/^\([0-9a-f]\{12\}\)/0+g\1/' \
        -e 's/^v//' \
        -e 's/-\([0-9]*\)-g\([0-9a-f]*\)/+\1.g\2/' \
        -e '/+/s/-dirty$/.dirty/' \
        -e 's/-dirty$/+dirty/'
fi
