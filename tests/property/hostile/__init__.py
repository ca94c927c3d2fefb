"""Projects as a pull request of a stranger may leave them: no command reads or writes anything outside of them."""
