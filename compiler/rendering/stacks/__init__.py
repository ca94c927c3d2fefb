"""What only recipes of documents have, not KAE: `configs` of their programs, and `pods`, the parts of pods for them."""
