"""The comparison of the earlier output with the plan, for what a compile takes away."""
