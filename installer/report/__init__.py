"""What people and monitoring see: plan, status, states and metrics."""
