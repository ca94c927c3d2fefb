#!/usr/bin/env bash
# Writes to inventory/ what the watchers have committed: of each branch inventory/<cluster>, inventory/<cluster>.json.
# The branches are of this repository, or of that in KAE_INVENTORY_REMOTE (a remote, or a URL without a password).
#
# Whoever may push such a branch decides that one file, and only for a cluster that the project has: nothing else of
# the branch is read, and what is no inventory of the cluster leaves the file as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most=$((64 * 1024 * 1024))
git fetch --quiet --no-tags --prune "${KAE_INVENTORY_REMOTE:-origin}" "+refs/heads/inventory/*:refs/kae/inventory/*"
output=""
git for-each-ref --format='%(refname)' refs/kae/inventory/ | while read -r branch; do
    cluster=${branch#refs/kae/inventory/}
    file=inventory/$cluster.json
    output=${output:-$(kae config output)}
    if [[ ! $cluster =~ ^[a-z0-9][-a-z0-9.]*$ || ( ! -d $output/$cluster && ! -f $file ) ]]; then
        echo "The branch inventory/$cluster is of no cluster of this project, and ignored." >&2
        continue
    fi
    read -r mode kind blob _ <<<"$(git ls-tree "$branch" -- "$file")"
    if [[ $kind != blob || $mode != 100644 ]]; then
        echo "The branch inventory/$cluster has no file $file, and is ignored." >&2
    elif [[ $blob == "$(git rev-parse --quiet --verify "HEAD:$file" || true)" ]]; then
        continue
    elif (($(git cat-file -s "$blob") > most)); then
        echo "$file of the branch inventory/$cluster has more than $((most >> 20)) MiB, and is ignored." >&2
    elif ! git cat-file blob "$blob" | kae inventory --cluster "$cluster" -o "$file"; then
        echo "$file of the branch inventory/$cluster is no inventory of the cluster, and is ignored." >&2
    fi
done
