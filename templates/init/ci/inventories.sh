#!/usr/bin/env bash
# Writes to the project, and stages, what the watchers have committed: of each cluster the file and the branch that its
# KAECluster names in spec.watcher.repository; without one, inventory/<cluster>.json of the branch inventory/<cluster>.
# The branches are of this repository, or of that in KAE_INVENTORY_REMOTE (a remote, or a URL without a password).
#
# Whoever may push such a branch decides that one file, and only for a cluster that the project has: nothing else of
# the branch is read, and what is no inventory of the cluster leaves the file as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most=$((64 * 1024 * 1024))
remote=${KAE_INVENTORY_REMOTE:-origin}
listed=$(kae config inventories)
heads=$(git ls-remote --heads "$remote")
present=$(cut -f2 <<<"$heads")

has_branch() {
    grep --quiet --line-regexp --fixed-strings "refs/heads/$1" <<<"$present"
}

# Whether this clone has the newest commit of a branch; if so, writes it to a ref.
has_tip() {
    local tip
    tip=$(awk -F '\t' -v ref="refs/heads/$1" '$2 == ref { print $1 }' <<<"$heads")
    git cat-file -e "$tip^{commit}" 2>/dev/null && git update-ref "$2" "$tip"
}

comm -13 <(cut -f3 <<<"$listed" | sed 's|^|refs/heads/|' | sort) <(grep ^refs/heads/inventory/ <<<"$present" | sort) \
    | sed 's|^refs/heads/\(.*\)|The branch \1 is of no cluster of this project, and ignored.|' >&2
#@shards
# Of a shard's clusters alone: each cluster is in one shard.
[[ -z ${KAE_SHARD:-} ]] || listed=$(kae config inventories --shard "$KAE_SHARD")
#@end
wanted=()
while IFS=$'\t' read -r cluster file branch path watcher; do
    if has_branch "$branch"; then
        # A commit of the main line, fetched without its history, would cut that of the main line.
        has_tip "$branch" "refs/kae/inventory/$cluster" || wanted+=("+refs/heads/$branch:refs/kae/inventory/$cluster")
    elif [[ $watcher == watcher ]]; then
        echo "There is no branch $branch, to which the watcher of $cluster commits: $file stays as it is." >&2
    fi
done <<<"$listed"
# Watchers commit all day, and nobody needs their older commits here.
[[ -z ${wanted[*]-} ]] || git fetch --quiet --no-tags --depth=1 "$remote" "${wanted[@]}"

while IFS=$'\t' read -r cluster file branch path watcher; do
    has_branch "$branch" || continue
    read -r mode kind blob _ <<<"$(git ls-tree "refs/kae/inventory/$cluster" -- "$path")"
    if [[ $kind != blob || $mode != 100644 ]]; then
        echo "The branch $branch has no file $path, and is ignored." >&2
    elif [[ $blob == "$(git rev-parse --quiet --verify "HEAD:$file" || true)" ]]; then
        continue
    elif (($(git cat-file -s "$blob") > most)); then
        echo "$path of the branch $branch has more than $((most >> 20)) MiB, and is ignored." >&2
    elif ! git cat-file blob "$blob" | kae inventory --cluster "$cluster" --output-file "$file"; then
        echo "$path of the branch $branch is no inventory of the cluster, and is ignored." >&2
    else
        git add --force -- "$file"
    fi
done <<<"$listed"
