"""The readers: what an accepted document of each kind means, as the values of `fleet`.

They alone know the fields of documents, and which kind a policy was written in.
"""
