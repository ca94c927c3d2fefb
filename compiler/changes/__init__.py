"""The comparison of a cluster's earlier output with the plan, to find what a compile takes from its nodes. Pure."""
