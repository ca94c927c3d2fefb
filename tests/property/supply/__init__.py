"""Random edits of where images, packages and injections come from: each that brings other writers is a risk."""
