"""The models of recipes and of their policies: `recipe` and its parts `driver` and `resources`, and `device_policy`."""
