"""The folder output/<cluster>/: trees and their index as values, the difference to the disk, and the disk itself.

`tree`, `index_file` and `diff` are pure. Import any module but `write`, which only `kae compile` needs; none imports
pydantic, PyYAML or Jinja2, so that an unchanged compile starts quickly.
"""
