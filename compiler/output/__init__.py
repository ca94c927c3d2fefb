"""The folder output/<cluster>/: the files wanted, the files found, and the steps between them."""
