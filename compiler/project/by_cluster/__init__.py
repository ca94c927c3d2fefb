"""The clusters of a project one at a time, by worker processes or by shards; only `commands` imports from here."""
