#!/usr/bin/env bash
# Fails where the documents are wrong (1), or where output/ is not what they compile to (4).
#@shards
# Usage: ci/check.sh [FINDINGS...]
#
# With KAE_SHARD=I/N it compiles the clusters of one of N shards, and writes what it finds to findings/. The job behind
# the shards names these files: it compiles nothing, and gives the one verdict.
#@end
set -euo pipefail
cd "${KAE_PROJECT:-$(dirname "${BASH_SOURCE[0]}")/..}"

format=text
base=${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    format=github  # Shown beside the lines of the pull request.
    base=HEAD^1  # GitHub checks out the merge of the pull request with its base.
fi

#@shards
if [[ -n ${KAE_SHARD:-} ]]; then
    if [[ $format == github ]]; then
        # The verdict shows the findings at their lines; here nothing that is printed is taken for a workflow command.
        echo "::stop-commands::$(head -c 16 /dev/urandom | od -An -vtx1 | tr -d ' \n')"
    fi
    mkdir -p findings
    exec kae compile --check --shard "$KAE_SHARD" --findings "findings/${KAE_SHARD/\//-of-}.json"
fi
of_shards=("$@")

#@end
# Shows a sentence; what it quotes comes from the pull request, and may hold no control character.
tell() {
    local sentence level=${3:-warning}
    sentence=$(tr '\000-\011\013-\037\177' '?' <<<"$2")
    if [[ $format == github ]]; then
        echo "::$level title=$1::${sentence//%/%25}"
    else
        echo "${level}[$1]: $sentence" >&2
    fi
}

# What decides about checks, and what Flux leaves out of all that is in the repository: of the project and below it, of
# each folder that it is in, and of the whole repository.
project=$(git rev-parse --show-prefix)  # With a slash behind it; empty at the root of the repository.
decisive=(kae.yaml ci ':(glob)**/.gitattributes' ':(glob)**/.sourceignore')
above=$project
while [[ -n $above ]]; do
    above=$(dirname "$above")/
    above=${above#./}
    decisive+=(":(top,literal)$above.gitattributes" ":(top,literal)$above.sourceignore")
done
decisive+=(":(top).github" ":(top).gitlab-ci.yml" ":(top).gitlab" ":(top).gitmodules" ":(top)ci")

# What a reviewer has to know, and the check below cannot judge: changes of the check itself, and of what may go.
tell_changes() {
    local names scopes
    if ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
        tell check-changed "This clone has no commit '$base': nobody has looked what the pull request changes."
        return
    fi
    names=$(git diff --name-only "$base" HEAD -- "${decisive[@]}")
    while read -r name; do
        [[ -z $name ]] || tell check-changed "The pull request changes $name, which decides what is checked or applied."
    done <<<"$names"
    scopes=$(git log --format='%(trailers:key=Kae-Accept,valueonly,unfold)' "$base..HEAD" | sort -u)
    while read -r scope; do
        [[ -z $scope ]] || tell removal-accepted "A commit says 'Kae-Accept: $scope': whoever merges it accepts this."
    done <<<"$scopes"
}

[[ -z $base ]] || tell_changes

# Names what engines find in git, and a check of the files cannot see: attributes of git can change what a clone makes of
# a file's content, and a submodule is an empty folder in it.
hidden() {
    local clusters=("$1"/*/index.json) held
    git ls-tree -r --full-name HEAD -- "$1" | sed -n $'s/^160000 [^\t]*\t//p' || return
    [[ -e ${clusters[0]} ]] || return 0
    held=$(git ls-tree -r --full-name HEAD -- "${clusters[@]%/index.json}") || return
    held=$(sed '/^160000/d; s/^100[0-7]* blob //' <<<"$held")
    comm -23 <(sort <<<"$held") \
        <(cut -f2 <<<"$held" | git hash-object --no-filters --stdin-paths | paste - <(cut -f2 <<<"$held") | sort) \
        | cut -f2
}

# Names the folders in FOLDER that engines applied by the base, and where other files stand now: `extra` may list them.
taken_over() {
    local folder
    git ls-tree -r --name-only "$base" -- "$1" | sed -n 's#/index[.]json$##p' | while read -r folder; do
        [[ ! -d $folder || -e $folder/index.json ]] || echo "$folder"
    done
}

# Checks a folder of outputs, and what git holds of it: FOLDER [OPTION].
check() {
    local names code=0
#@shards
    if (($# == 1 && ${#of_shards[@]})); then
        kae merge-findings --format "$format" "${of_shards[@]}" || code=$?
    else
        kae compile --check --format "$format" "${@:2}" || code=$?
    fi
#@without
#    kae compile --check --format "$format" "${@:2}" || code=$?
#@end
    ((code == 0)) || return "$code"
    names=$(hidden "$1") || return
    while read -r name; do
        [[ -z $name ]] || tell output-hidden "git holds at $name something else than the file that was checked." error
    done <<<"$names"
    [[ -z $names ]]
}

code=0
output=$(kae config output 2>/dev/null) || true  # The check itself says what is wrong.
check "$output" || code=$?
if ((code == 0)) && [[ -n $base ]] && git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
    # Engines apply the folder that the base names. With another one in kae.yaml, nobody has looked at it yet.
    if ! applied=$(kae config output "$base"); then
        tell output-hidden "Engines apply the folder that kae.yaml names in '$base', and it cannot be checked." error
        code=1
    elif [[ $applied != "$output" && -d $applied ]]; then
        check "$applied" "--output-dir=$applied" || code=$?
    fi
    while read -r folder; do
        [[ -n $folder ]] || continue
        tell output-hidden "An engine applied $project$folder, and it holds files that kae did not write: remove them." error
        code=1
    done <<<"$(taken_over "$applied")"
fi
if ((code == 4)); then
    if [[ $format == github ]]; then
        echo "::error title=output::$project$output/ is not what policies/ and inventory/ compile to."
    fi
    echo "Run 'kae compile', and commit output/. Where .gitignore names a file of it, add it by 'git add --force'." >&2
fi
exit "$code"
