#!/usr/bin/env bash
# Fails where the documents are wrong (1), or where output/ is not what they compile to (4).
set -euo pipefail
cd "${KAE_PROJECT:-$(dirname "${BASH_SOURCE[0]}")/..}"

format=text
base=${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    format=github  # Shown beside the lines of the pull request.
    base=HEAD^1  # GitHub checks out the merge of the pull request with its base.
fi

# Shows a sentence; what it quotes comes from the pull request, and may hold no control character.
tell() {
    local sentence
    sentence=$(tr '\000-\011\013-\037\177' '?' <<<"$2")
    if [[ $format == github ]]; then
        echo "::warning title=$1::${sentence//%/%25}"
    else
        echo "warning[$1]: $sentence" >&2
    fi
}

# What decides about checks, and what Flux leaves out of all that is in the repository.
decisive=(kae.yaml ci .github .gitlab-ci.yml .gitmodules ':(glob)**/.gitattributes' ':(glob)**/.sourceignore')

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

# The folder of outputs that engines apply, as the base names it, where the pull request changes kae.yaml and keeps it.
applied() {
    if [[ -n $base ]] && ! git diff --quiet "$base" HEAD -- kae.yaml 2>/dev/null; then
        local folder
        folder=$(git show "$base:kae.yaml" 2>/dev/null \
            | sed -n "s/^output:[[:space:]]*[\"']\{0,1\}\([^\"'#[:space:]]*\).*/\1/p" || true)
        git ls-tree -d --name-only HEAD -- "${folder:-output}"
    fi
}

code=0
kae compile --check --format "$format" || code=$?
folder=$(applied)
if ((code == 0)) && [[ -n $folder ]]; then
    # With another folder in kae.yaml, the check above has not looked at this one.
    kae compile --check --format "$format" --output-dir "$folder" || code=$?
fi
if ((code == 4)); then
    if [[ $format == github ]]; then
        echo "::error title=output::output/ is not what policies/ and inventory/ compile to."
    fi
    echo "Run 'kae compile', and commit output/." >&2
fi
exit "$code"
