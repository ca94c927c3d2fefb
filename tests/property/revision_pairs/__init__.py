"""Random pairs of revisions: what `kae diff` claims of pods and nodes equals what their manifests say."""
