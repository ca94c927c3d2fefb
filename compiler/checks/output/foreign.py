"""Findings on files below output/ that the compiler did not write, where the package `output` has seen some."""

from collections.abc import Iterable

from compiler.diagnostics import Diagnostic, Findings, Span, rule

_OWN = "Objects of your own go to a folder that kae.yaml names under extra."


@rule("foreign-file", "warning")
def files(folder: str, paths: Iterable[str], *, beside: bool = False) -> Findings:
    """The compiler writes all files below output/, apart from output/README.md, git's own and `extra` folders.

    Its files are those that the index.json of a cluster lists: git may have taken it back, and left a file of which
    .kae_cache/ knows nothing any more. What is `beside` the folders of clusters has no index.
    """
    left = "" if beside else f" `git clean -i {folder}` shows what git left of an earlier compile."
    reason = "was not written by the compiler" if beside else "is none of the compiler's files, which index.json lists"
    return tuple(
        Diagnostic(
            code="foreign-file",
            span=Span(file=f"{folder}/{path}"),
            message=f"'{folder}/{path}' {reason}.",
            hint=f"Move it out, or delete it.{left} {_OWN}",
        )
        for path in paths
    )


@rule("engine-file", "error")
def engine_files(output: str, paths: Iterable[str]) -> Findings:
    """The compiler wrote every file below output/ that a GitOps engine reads by itself."""
    return tuple(
        Diagnostic(
            code="engine-file",
            span=Span(file=f"{output}/{path}"),
            message=f"'{output}/{path}' was not written by the compiler, and GitOps engines read files of this name by "
            "themselves.",
            notes=("Such a file changes what an engine applies, or stops it.",),
            hint=f"Remove it. {_OWN}",
        )
        for path in paths
    )
