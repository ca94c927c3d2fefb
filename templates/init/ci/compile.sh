#!/usr/bin/env bash
# Compiles the newest commit of a branch, and commits output/ to it where it changed.
# Usage: ci/compile.sh [BRANCH]
#
# A commit is a function of the fetched tree, so one that loses a race is not rebased but made anew. The branch that
# is checked out is never moved, and nothing is ever forced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

branch=${1:-main}
attempts=${KAE_ATTEMPTS:-6}
export GIT_AUTHOR_NAME=${GIT_AUTHOR_NAME:-kae}
export GIT_AUTHOR_EMAIL=${GIT_AUTHOR_EMAIL:-kae@localhost}
export GIT_COMMITTER_NAME=${GIT_COMMITTER_NAME:-$GIT_AUTHOR_NAME}
export GIT_COMMITTER_EMAIL=${GIT_COMMITTER_EMAIL:-$GIT_AUTHOR_EMAIL}
source_of="Kae-Compiled-From"

# Whether a commit is this script's own. The trailer names the parent, so a copy elsewhere is not taken for it.
is_own() {
    local parent
    parent=$(git rev-parse --quiet --verify "$1^") || return 1
    [[ $(git log -1 --format="%(trailers:key=$source_of,valueonly)" "$1") == "$parent" ]]
}

message() {
    local clusters count
    clusters=$(git diff --cached --name-only -- output | cut -d/ -f2 | sort -u)
    count=$(wc -l <<<"$clusters")
    if ((count == 1)); then
        echo "Compile $clusters"
    else
        echo "Compile $((count)) clusters"
    fi
    echo
    while read -r cluster; do
        echo "- $cluster: $(git diff --cached --shortstat -- "output/$cluster" | sed 's/^ *//')"
    done <<<"$clusters"
    echo
    echo "$source_of: $1"
}

if ! git diff --quiet HEAD --; then
    echo "There are changes that are not committed; this script is for a clean clone." >&2
    exit 1
fi

for ((attempt = 1; attempt <= attempts; attempt++)); do
    git fetch --quiet origin "$branch"
    base=$(git rev-parse FETCH_HEAD)
    if is_own "$base"; then
        echo "The newest commit of $branch is a compiled one: nothing to do."
        exit 0
    fi
    git checkout --quiet --detach "$base"
    kae compile
    mkdir -p output
    git add --all -- output
    if git diff --cached --quiet; then
        echo "output/ is up to date."
        exit 0
    fi
    message "$base" | git commit --quiet --no-verify --file=-
    if git push --quiet origin "HEAD:refs/heads/$branch"; then
        git log -1 --format='Pushed %h: %s'
        exit 0
    fi
    # A lost race, or a refusal that would only repeat itself: of a missing right, or a protected branch.
    if [[ $(git ls-remote origin "refs/heads/$branch" | cut -f1) == "$base" ]]; then
        echo "The push was refused, and $branch has not moved." >&2
        exit 1
    fi
    echo "$branch has moved; attempt $attempt of $attempts." >&2
    sleep $((RANDOM % (attempt * 2)))
done
echo "$branch moved $attempts times while output/ was compiled." >&2
exit 1
