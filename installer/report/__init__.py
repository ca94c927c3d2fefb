"""The output for people and monitoring: plan, status, states and metrics."""
