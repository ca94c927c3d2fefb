"""The live cluster compared with the plan; pure, from objects to a report."""
