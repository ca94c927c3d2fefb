"""The answer of `kae diff` in words and as data; the page of `kae report` and `review` use its words too."""
