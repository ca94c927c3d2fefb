"""The answer of `kae diff` for people, programs and code hosts; the page of `kae report` has its words too."""
