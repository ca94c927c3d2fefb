"""Random fleets whose files people wrote in any style, and the commands that edit a policy in them."""
