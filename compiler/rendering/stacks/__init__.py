"""The parts that objects of recipes have beside those of KAE: `configs` of their programs, `pods` for their pods."""
