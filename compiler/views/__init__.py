"""What `kae plan` shows of a plan, and `kae diff` of a change: selections, sentences, and text. Pure."""
