#!/usr/bin/env bash
# Installs kae for action.yml, with what it needs as templates/init/ci/requirements.txt pins it, beside the job's Python.
set -euo pipefail

sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$RUNNER_TEMP/kae
python3 -P -m venv "$place"
pip=("$place/bin/python" -P -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --require-hashes --requirement "$sources/templates/init/ci/requirements.txt"
if [[ -n ${KAE_WHEEL:-} ]]; then
    "${pip[@]}" install --no-deps "$KAE_WHEEL"
else
    # Templates and schemas are found beside the sources.
    "$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        | while read -r folder; do echo "$sources" >"$folder/kae.pth"; done
    printf '#!/bin/sh\nexec "%s/bin/python" -P -m compiler "$@"\n' "$place" >"$place/bin/kae"
    chmod +x "$place/bin/kae"
fi
mkdir "$place/path"
ln -s "$place/bin/kae" "$place/path/kae"
echo "$place/path" >>"$GITHUB_PATH"
