"""The settings of a revision that hold whatever else is wrong with its project file."""

from compiler import diagnostics, errors, names, wording
from compiler.formats import decode
from compiler.project.history import repository as repositories
from compiler.settings import Settings


def output(revision: str) -> str:
    """Return the folder of outputs that the project file of a revision names. Raises WorldError."""
    with repositories.Repository() as repository:
        found = repository.tree(repository.commit(revision), [names.PROJECT_FILE]).project_file()
        read, wrong = decode.decode(names.PROJECT_FILE, repository.read(found.blob)) if found else ([], [])
    data = read[0].data if read else {}
    folder = data.get("output", Settings().output) if isinstance(data, dict) else None
    if not isinstance(folder, str) or not folder or diagnostics.has_errors(wrong):
        raise errors.WorldError(
            f"{names.PROJECT_FILE} of {wording.quoted(revision)} cannot be read, and may name a folder of outputs.",
            hint="Name a revision whose settings `kae compile` takes.",
        )
    return folder
