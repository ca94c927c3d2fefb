#!/usr/bin/env bash
# `make hooks`: have git run `make quick` before each push; a hook of another origin is left alone.
set -euo pipefail
hook=$(git rev-parse --git-path hooks/pre-push)
mark='# Of make hooks.'
if [[ -e $hook ]] && ! grep -qxF "$mark" "$hook"; then
    echo "'$hook' is there already, and not of 'make hooks': let it call 'make quick', or remove it." >&2
    exit 1
fi
mkdir -p "$(dirname "$hook")"
# git names the repository of a linked worktree in variables, which the tests' own repositories must not get.
cat >"$hook" <<END
#!/bin/sh
$mark
unset \$(git rev-parse --local-env-vars)
exec make --no-print-directory quick </dev/null
END
chmod +x "$hook"
echo "git runs 'make quick' before each push, by '$hook'; 'git push --no-verify' leaves it out."
