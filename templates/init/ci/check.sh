#!/usr/bin/env bash
# Fails where the documents are wrong (1), or where output/ is not what they compile to (4).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=text
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    format=github  # Shown beside the lines of the pull request.
fi

code=0
kae compile --check --format "$format" || code=$?
if ((code == 4)); then
    if [[ $format == github ]]; then
        echo "::error title=output::output/ is not what policies/ and inventory/ compile to."
    fi
    echo "Run 'kae compile', and commit output/." >&2
fi
exit "$code"
