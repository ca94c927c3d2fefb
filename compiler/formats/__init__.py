"""Text to data and back, each value with its position in the text; knows nothing of KAE."""
