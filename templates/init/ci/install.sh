#!/usr/bin/env bash
# Installs kae and what it needs as ci/requirements.txt pins them, each file by its sha256.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! grep -q '\.whl --hash=sha256:' ci/requirements.txt; then
    echo "ci/requirements.txt pins no wheel of kae." >&2
    echo "Run 'kae init --wheel URL|PATH' in this folder, and commit what it writes." >&2
    exit 1
fi
# -P: a pip.py in this folder is not taken for pip.
python3 -P -m pip install --require-hashes --requirement ci/requirements.txt
