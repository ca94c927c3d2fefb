"""Pure decisions: the desired driver, its verification, and what to do; reads no disk, clock or network."""
