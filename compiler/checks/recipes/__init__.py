"""Rules for recipes (`recipe`, `parameters`, `resources`) and for what a policy says of its recipe (`values`)."""
