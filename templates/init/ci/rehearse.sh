#!/usr/bin/env bash
# Plays a pull request on a control plane that it starts, by `kae rehearse`. What happens is in the log, and in the
# summary of the job. Fails where it is not what `kae diff` says (4), where the documents are wrong (1), and where there
# could be no rehearsal (3).
# Usage: ci/rehearse.sh [BASE]
#
# KAE_CONTROL_PLANE names tar archives that hold etcd, kube-apiserver, kube-controller-manager and kube-scheduler, in
# whatever folder: https URLs or paths, with blanks in between. KAE_CONTROL_PLANE_SHA256 has the sha256 of each.
#
# The sums keep other archives out. A pull request can change this script, as it can ci/check.sh, which tells reviewers
# so: the job has no secret and may only read. One from a fork does not get the variables of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${GITHUB_ACTIONS:-} == true ]]; then
    # From here on nothing that is printed, such as a name in an archive, is taken for a workflow command.
    echo "::stop-commands::$(head -c 16 /dev/urandom | od -An -vtx1 | tr -d ' \n')"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
archive=$folder/archive
export programs=$folder/programs
mkdir "$programs"

# Adds to the summary a title, and standard input as code, in which code hosts look for nothing.
summarise() {
    [[ -n ${GITHUB_STEP_SUMMARY:-} ]] || return 0
    {
        printf '### %s\n\n' "$1"
        # Other control characters could end a line of code. A summary may have 1 MiB.
        LC_ALL=C tr -d '\000-\010\013-\037\177' | LC_ALL=C cut -b 1-500 \
            | sed -n -e '1,1000s/^/    /p' -e '1001s/.*/\nThe log has the rest./p'
    } >>"$GITHUB_STEP_SUMMARY"
}

fail() {
    echo "$1" >&2
    summarise "There was no rehearsal" <<<"$1"
    exit 3
}

base=${1:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-HEAD^1}}  # GitHub checks out the merge of the pull request with its base.
commit=$(git rev-parse --quiet --verify "$base^{commit}") \
    || fail "This clone has no commit '${base//[^[:alnum:]\/^~._-]/?}'."

read -r -d '' -a places <<<"${KAE_CONTROL_PLANE:-}" || true
read -r -d '' -a sums <<<"${KAE_CONTROL_PLANE_SHA256:-}" || true
((${#places[@]})) || fail "KAE_CONTROL_PLANE names no archive."
((${#places[@]} == ${#sums[@]})) \
    || fail "KAE_CONTROL_PLANE_SHA256 has to have one sum for each archive of KAE_CONTROL_PLANE, in the same order."
for index in "${!places[@]}"; do
    place=${places[index]}
    name=${place%%\?*}  # Without what a URL may hold of a token.
    if [[ $place == *://* ]]; then
        [[ $place =~ ^https://[^/@]+/ ]] || fail "A URL in KAE_CONTROL_PLANE begins with https://, and holds no password."
        curl --fail --silent --show-error --location --proto '=https' --globoff --retry 3 --output "$archive" -- "$place" \
            || fail "'$name' cannot be downloaded."
    else
        # A copy, as nobody can change it between the comparison and the use.
        cp -- "$place" "$archive" || fail "'$name' cannot be read."
    fi
    sum=$(sha256sum <"$archive")
    sum=${sum%% *}
    [[ $sum == "${sums[index]}" ]] || fail "'$name' has the sha256 $sum, and KAE_CONTROL_PLANE_SHA256 another."
    # tar hands on the content of files, and writes none: no name and no link of the archive leads anywhere. With -C no
    # program takes the place of another one.
    # shellcheck disable=SC2016 # The shell that tar starts for each file replaces them.
    tar --extract --file "$archive" --to-command '
        set -C
        case ${TAR_REALNAME##*/} in
            etcd | kube-apiserver | kube-controller-manager | kube-scheduler)
                exec cat >"$programs/${TAR_REALNAME##*/}" ;;
        esac
        exec cat >/dev/null' || fail "'$name' cannot be unpacked, or holds a program that was there already."
    rm "$archive"
done
for program in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    [[ -s $programs/$program ]] || fail "No archive of KAE_CONTROL_PLANE holds $program."
    chmod +x "$programs/$program"
done

# -P: a pip.py in this folder is not taken for pip.
python3 -P -m pip install --require-hashes --requirement ci/requirements-live.txt \
    || fail "pip did not install what ci/requirements-live.txt pins."

code=0
kae rehearse "$commit" --to HEAD --programs "$programs" 2>&1 | tee "$folder/said" || code=$?
case $code in
    0) title="The rehearsal differs nowhere from what \`kae diff\` says" ;;
    4) title="The rehearsal differs from what \`kae diff\` says" ;;
    *) title="There was no rehearsal" ;;
esac
summarise "$title" <"$folder/said"
exit "$code"
