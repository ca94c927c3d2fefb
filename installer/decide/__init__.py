"""Pure decisions: the desired driver, whether it is there, and what to do; reads no disk, clock or network."""
