"""The difference between two revisions for a code host: the comment of a pull request, and its annotations."""
