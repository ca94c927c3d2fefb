"""The real node: containerd, the kubelet, images, and the compiled DaemonSets. Import any module."""
