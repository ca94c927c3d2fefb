"""Random fleets of several clusters, compiled by one process, by several, and by the shards of several machines."""
