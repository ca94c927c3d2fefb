"""What `kae plan` shows of a plan: the nodes that are asked for, their problems, and the text. Pure."""
