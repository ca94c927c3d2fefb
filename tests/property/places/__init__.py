"""Places of a fake host that break under the real installer: links, pipes, and mounts that are full or dead."""
