"""One folder a diagnostic code: documents that earn it, and the exact text that is shown."""
