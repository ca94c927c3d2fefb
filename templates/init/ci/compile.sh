#!/usr/bin/env bash
# Compiles the newest commit of a branch with the newest inventories of the watchers (ci/inventories.sh), and commits
# the inventories and output/ to it where they changed.
# Usage: ci/compile.sh [BRANCH]
#@shards
# With KAE_SHARD=I/N it takes the inventories and compiles the clusters of one of N shards, beside the jobs of the
# others, and writes what it finds to findings/, or KAE_FINDINGS, for `kae merge-findings`.
#@end
#
# A commit is a function of the fetched tree, so one that loses a race is not rebased but made anew. The branch that
# is checked out is never moved, and nothing is ever forced.
#
# A compile stops where it would take away drivers, device plugins or their protection. Nobody watches this job, so it
# lets pass only what a commit of the branch accepts in a trailer, 'Kae-Accept: CODE[:CLUSTER[/POLICY]]'.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    # From here on nothing that is printed, such as a line of a policy, is taken for a workflow command.
    echo "::stop-commands::$(head -c 16 /dev/urandom | od -An -vtx1 | tr -d ' \n')"
fi

branch=${1:-main}
attempts=${KAE_ATTEMPTS:-6}
#@shards
shard=${KAE_SHARD:-}
# Each other shard may win a push with what it makes of this commit, and one with what it makes of the one before.
[[ -z $shard ]] || attempts=${KAE_ATTEMPTS:-$((6 + 2 * ${shard#*/}))}
shard_of="Kae-Shard"
#@end
export GIT_AUTHOR_NAME=${GIT_AUTHOR_NAME:-kae}
export GIT_AUTHOR_EMAIL=${GIT_AUTHOR_EMAIL:-kae@localhost}
export GIT_COMMITTER_NAME=${GIT_COMMITTER_NAME:-$GIT_AUTHOR_NAME}
export GIT_COMMITTER_EMAIL=${GIT_COMMITTER_EMAIL:-$GIT_AUTHOR_EMAIL}
source_of="Kae-Compiled-From"
accept="Kae-Accept"

# Whether a commit is this script's own. The trailer names the parent, so a copy elsewhere is not taken for it.
is_own() {
    local parent
    parent=$(git rev-parse --quiet --verify "$1^") || return 1
    [[ $(git log -1 --format="%(trailers:key=$source_of,valueonly)" "$1") == "$parent" ]]
}

#@shards
# Whether a commit is what another shard of as many has made of its parent.
is_of_another_shard() {
    local other
    other=$(git log -1 --format="%(trailers:key=$shard_of,valueonly)" "$1")
    [[ -n $shard && $other == */"${shard#*/}" && $other != "$shard" ]] && is_own "$1"
}

#@end
# What is staged, by cluster, in one call of git: its time grows with the number of files.
staged() {
    git -c core.quotePath=false diff --cached --no-renames --numstat --relative | awk -F '\t' -v output="$output/" '
        function counted(number, noun) { return number " " noun (number == 1 ? "" : "s") }
        {
            name = $3
            if (index(name, output) == 1) { name = substr(name, length(output) + 1); sub("/.*", "", name) }
            else { sub(".*/", "", name); sub("[.][^.]*$", "", name) }
            files[name]++; added[name] += $1; removed[name] += $2
        }
        END {
            for (name in files) {
                printf "- %s: %s changed", name, counted(files[name], "file")
                if (added[name]) printf ", %s(+)", counted(added[name], "insertion")
                if (removed[name]) printf ", %s(-)", counted(removed[name], "deletion")
                print ""
            }
        }' | sort
}

message() {
    local clusters name count
    clusters=$(staged)
    count=$(wc -l <<<"$clusters")
    if ((count == 1)); then
        name=${clusters#- }
        echo "Compile ${name%%:*}"
    else
        echo "Compile $((count)) clusters"
    fi
    echo
    echo "$clusters"
    echo
    echo "$source_of: $1"
#@shards
    [[ -z $shard ]] || echo "$shard_of: $shard"
#@end
}

# The commits that may accept a removal: those that came to the branch after output/ changed there, merged ones too.
news() {
    local compiled
#@shards
    # What other shards have made of the same commit holds nothing of this one's clusters.
    while is_of_another_shard "$1"; do
        set -- "$(git rev-parse "$1^")"
    done
#@end
    compiled=$(git rev-list --max-count=1 --first-parent "$1" -- "$output")
    git rev-list --regexp-ignore-case --grep="^[[:space:]]*${accept}[[:space:]]*:" "$1" ${compiled:+"^$compiled"}
}

# The scopes that trailers accept, one a line. A trailer cannot be taken back, so one that is wrong is named and ignored.
# A control character of a message, which could steer the reader's terminal, becomes a question mark.
accepted() {
    local commit scope scopes reason
    for commit in $(news "$1"); do
        scopes=$(git log -1 --format="%(trailers:key=$accept,valueonly,unfold)" "$commit" \
            | tr '\000-\011\013-\037\177' '?' | sed '/^[[:space:]]*$/d')
        if [[ -z $scopes ]]; then
            echo "Commit ${commit:0:12} has '$accept:' outside of its last paragraph; this is no trailer, and ignored." >&2
        fi
        while read -r scope; do
            if [[ -z $scope ]]; then
                continue
            elif reason=$(kae compile --accept="$scope" --help 2>&1 >/dev/null); then
                echo "$scope"
            else
                echo "Commit ${commit:0:12} says '$accept: $scope', which is ignored: ${reason##*: error: }" >&2
            fi
        done <<<"$scopes"
    done
}

# Compiles the commit $1. Where the compile stops at removals, says how a commit accepts them.
compile() {
    local scope report code=0 arguments=()
#@shards
    if [[ -n $shard ]]; then
        local findings=${KAE_FINDINGS:-findings}/${shard/\//-of-}.json
        mkdir -p "${findings%/*}"
        rm -f "$findings"
        arguments=("--shard=$shard" "--findings=$findings")
    fi
#@end
    while read -r scope; do
        [[ -z $scope ]] || arguments+=("--accept=$scope")
    done <<<"$(accepted "$1")"
    report=$(mktemp)
    kae compile ${arguments[@]+"${arguments[@]}"} 2>"$report" || code=$?
    cat "$report" >&2
    # Of hints alone: other lines show the words of documents.
    if grep --quiet -- "^  hint: .*kae compile --accept " "$report"; then
        echo "To accept a removal here, push a commit that ends with its trailer:" >&2
        grep "^  hint: " "$report" | grep --only-matching "$accept: [^']*" | sort -u \
            | sed "s/.*/  git commit --allow-empty -m 'Accept a removal' -m '&'/" >&2
    fi
    rm -f "$report"
    return "$code"
}

if ! git diff --quiet HEAD --; then
    echo "There are changes that are not committed; this script is for a clean clone." >&2
    exit 1
fi

# Jobs clone a commit or two; trailers are in older ones too. Only once: ci/inventories.sh fetches without history.
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
    git fetch --quiet --unshallow origin "$branch"
fi
for ((attempt = 1; attempt <= attempts; attempt++)); do
    git fetch --quiet origin "$branch"
    base=$(git rev-parse FETCH_HEAD)
    git checkout --quiet --detach "$base"
    ci/inventories.sh
#@shards
    # A shard compiles in any case: the newest commit may be of another one, and the verdict needs what each has found.
    if [[ -z $shard ]] && is_own "$base" && git diff --cached --quiet; then
#@without
#    if is_own "$base" && git diff --cached --quiet; then
#@end
        echo "The newest commit of $branch is a compiled one: nothing to do."
        exit 0
    fi
    output=$(kae config output)
    compile "$base"
    mkdir -p "$output"
    # What .gitignore leaves out would be missing where engines look.
    git add --all --force -- "$output"
    if git diff --cached --quiet; then
        echo "$output/ is up to date."
        exit 0
    fi
    message "$base" | git commit --quiet --no-verify --file=-
    if git push --quiet origin "HEAD:refs/heads/$branch"; then
        git log -1 --format='Pushed %h: %s'
        exit 0
    fi
#@shards
    # The push of another shard may hold the branch's lock, and not have moved it yet.
    for ((look = 0; look < 5; look++)); do
        [[ -n $shard && $(git ls-remote origin "refs/heads/$branch" | cut -f1) == "$base" ]] || break
        sleep 1
    done
#@end
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
