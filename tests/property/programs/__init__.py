"""Random recipes with programs, against a second reading of their texts and a walk over the objects that they make."""
