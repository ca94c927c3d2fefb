"""The images as `make images` builds them, upon a minimal Debian and without any registry. It takes root and podman."""
