#!/usr/bin/env bash
# Takes the newest digest of each base image, which is that of its tag now; the tag stands in a comment above the digest.
# It needs skopeo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for file in ./*/Dockerfile ci/compiler.Dockerfile .github/workflows/ci.yml; do
    tag=$(sed -n 's/^ *# python:\([a-z0-9.-]*[a-z0-9]\).*/\1/p' "$file" | head -n 1)
    old=$(grep -o 'python@sha256:[0-9a-f]\{64\}' "$file" | head -n 1) || true
    [[ -n $tag && -n $old ]] || { echo "$file has no base image with its tag above it." >&2; exit 1; }
    # The index of all platforms, as the registry has it.
    manifest=$(mktemp)
    skopeo inspect --raw "docker://docker.io/library/python:$tag" >"$manifest"
    new=python@sha256:$(sha256sum <"$manifest" | cut -d ' ' -f 1)
    rm "$manifest"
    sed -i "s/$old/$new/" "$file"
    echo "$file: $new"
done
