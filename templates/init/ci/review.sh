#!/usr/bin/env bash
# Says what a pull request does to the nodes: in the log, as annotations, in the summary of the job, and in review/, as
# the comment and the page of the fleet. Fails where the documents are wrong, or where a risk is an error (1).
# Usage: ci/review.sh [BASE]
set -euo pipefail
cd "${KAE_PROJECT:-$(dirname "${BASH_SOURCE[0]}")/..}"

format=text
base=${1:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-HEAD^1}}  # GitHub checks out the merge of the pull request with its base.
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    format=github
fi
if ! commit=$(git rev-parse --quiet --verify "$base^{commit}"); then
    echo "This clone has no commit '$base', so nobody has looked what the pull request does." >&2
    exit 1
fi

# Risks that a commit of the pull request accepts, 'Kae-Accept: CODE[:CLUSTER[/POLICY]]'. ci/check.sh names each.
accepted=()
while read -r scope; do
    if [[ -n $scope ]] && kae diff --accept="$scope" --help >/dev/null 2>&1; then
        accepted+=("--accept=$scope")
    fi
done <<<"$(git log --format='%(trailers:key=Kae-Accept,valueonly,unfold)' "$commit..HEAD" | sort -u)"

rm -rf review
mkdir review
change=("$commit" --to HEAD ${accepted[@]+"${accepted[@]}"})
code=0
kae diff "${change[@]}" --format "$format" || code=$?
kae diff "${change[@]}" -o markdown >review/comment.md 2>/dev/null || code=$?
kae report --html review/fleet.html "$commit" ${accepted[@]+"${accepted[@]}"} >/dev/null 2>&1 || rm -f review/fleet.html
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
    if [[ -s review/comment.md ]]; then
        cat review/comment.md
    else
        echo "The pull request does nothing to any node."
    fi >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
