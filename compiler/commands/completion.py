"""`kae completion`: a completion script for a shell, which asks `kae` itself for the words."""

import argparse
import sys

from compiler import cli

# No shell expands an answer, as names come from documents.
_BASH = """\
_kae() {
    mapfile -t COMPREPLY < <(kae __complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o default -F _kae kae
"""
_ZSH = """\
_kae() {
    local -a found
    found=("${(@f)$(kae __complete "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _kae kae
"""
_FISH = """\
function __kae_complete
    kae __complete (commandline --current-process --cut-at-cursor | string collect) 2>/dev/null
end
complete --command kae --no-files --arguments '(__kae_complete)'
complete --command kae --condition 'not __kae_complete | string length --quiet' --force-files
"""
_SCRIPTS = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}


def run(arguments: argparse.Namespace) -> int:
    """Print the script; `eval "$(kae completion bash)"` in ~/.bashrc makes it work."""
    sys.stdout.write(_SCRIPTS[arguments.shell])
    return cli.FINE
