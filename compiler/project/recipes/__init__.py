"""The recipes that kae ships, the copies of a project, their schemas for editors, and their trials."""
