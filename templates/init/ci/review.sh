#!/usr/bin/env bash
# Says what a pull request does to the nodes: in the log, as annotations, in the summary of the job, and in review/, as
# the comment and the page of the fleet. Fails where the documents are wrong, or where a risk is an error (1).
# Usage: ci/review.sh [BASE]
#
# KAE_PROJECT is the folder of another project than that of this script, and KAE_REVIEW another folder than its review/.
set -euo pipefail
cd "${KAE_PROJECT:-$(dirname "${BASH_SOURCE[0]}")/..}"
# The project in the repository, by which those of one repository differ, whoever calls from where; `.` is the root.
project=$(git rev-parse --show-prefix || true)
project=${project%/}
project=${project:-.}
review=${KAE_REVIEW:-review}

format=text
base=${1:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-HEAD^1}}  # GitHub checks out the merge of the pull request with its base.
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    format=github
fi
rm -rf "$review"
mkdir "$review"
if [[ -n ${GITHUB_OUTPUT:-} ]]; then
    # An artifact's name holds no slash, and two projects of one run need two: a checksum tells a/b from a-b.
    artifact=review-${project//[^[:alnum:]._-]/-}
    [[ $artifact == "review-$project" ]] || artifact+=-$(cksum <<<"$project" | cut -d ' ' -f 1)
    echo "artifact=${artifact%-.}" >>"$GITHUB_OUTPUT"
fi

# Has the comment say that nobody knows what the pull request does: the first argument, then what a program has said.
unknown() {
    echo "$1, so what the pull request does is not known." >&2
    {
        printf '### What this pull request does is not known\n\n%s.\n' "$1"
        if [[ -n $2 ]]; then
            # Code, in which code hosts look for nothing; other control characters could end its lines.
            printf '\n'
            LC_ALL=C tr -d '\000-\010\013-\037\177' <<<"$2" | LC_ALL=C cut -b 1-500 | sed -n '1,10s/^/    /p'
        fi
    } >"$review/comment.md"
}

summarise() {
    if [[ -z ${GITHUB_STEP_SUMMARY:-} ]]; then
        return
    fi
    [[ $project == . ]] || printf 'Project %s:\n\n' "$project" >>"$GITHUB_STEP_SUMMARY"
    if [[ -s "$review/comment.md" ]]; then
        cat "$review/comment.md"
    else
        echo "The pull request does nothing to any node."
    fi >>"$GITHUB_STEP_SUMMARY"
}

if ! commit=$(git rev-parse --quiet --verify "$base^{commit}"); then
    unknown "This clone has no commit '${base//[^[:alnum:]\/^~._-]/?}'" ""
    summarise
    exit 1
fi

# Risks that a commit of the pull request accepts, 'Kae-Accept: CODE[:CLUSTER[/POLICY]]'. ci/check.sh names each.
accepted=()
while read -r scope; do
    if [[ -n $scope ]] && kae diff --accept="$scope" --help >/dev/null 2>&1; then
        accepted+=("--accept=$scope")
    fi
done <<<"$(git log --format='%(trailers:key=Kae-Accept,valueonly,unfold)' "$commit..HEAD" | sort -u)"

change=("$commit" --to HEAD ${accepted[@]+"${accepted[@]}"})
code=0
kae diff "${change[@]}" --format "$format" || code=$?
answer=0
said=$(kae diff "${change[@]}" -o markdown 2>&1 >"$review/comment.md") || answer=$?
# 1 with a text is an answer: something does not compile, or a risk is an error.
if ((answer > 1)) || { ((answer == 1)) && [[ ! -s "$review/comment.md" ]]; }; then
    unknown "kae diff ended with $answer and gave no answer" "$said"
fi
summarise
if ((answer)); then
    code=$answer
fi
page=0
said=$(kae report --html "$review/fleet.html" "$commit" ${accepted[@]+"${accepted[@]}"} 2>&1 >/dev/null) || page=$?
if ((page)); then
    rm -f "$review/fleet.html"
    echo "There is no page of the fleet, as kae report ended with $page:"
    said=$(sed -n 1,10p <<<"$said")
    if [[ $format == github ]]; then
        # What it says holds words of the pull request, which could be commands for the runner.
        token=$(head -c 16 /dev/urandom | od -An -vtx1 | tr -d ' \n')
        printf '::stop-commands::%s\n%s\n::%s::\n' "$token" "$said" "$token"
    else
        printf '%s\n' "$said"
    fi
    code=$((code ? code : page))
fi >&2
exit "$code"
