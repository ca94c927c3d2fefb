"""What a compile takes away from the nodes of a cluster: its earlier output as values, compared with the plan. Pure."""
