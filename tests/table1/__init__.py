"""The KAE Operator's options, row by row: what each changes in the manifests, or why it changes nothing."""
