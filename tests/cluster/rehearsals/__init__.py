"""Rehearsals of random pairs of commits on a real control plane: each must go as `kae diff` says."""
