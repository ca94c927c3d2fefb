"""The live cluster compared with the plan; pure, from raw objects to a status and its text.

Import `cluster_status` for the result and its JSON, and `text` for people; the other modules are their parts.
"""
