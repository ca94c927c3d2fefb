"""An edit more in a change, and the risks that `kae diff` finds in it."""
