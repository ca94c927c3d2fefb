"""The kubelet's interface that says which pods hold which devices, as messages; the installer and the plugin ask it.

The .proto file is written by hand. The rest is generated, is never edited, and is checked against its .proto by
tests/installer/test_device_holders.py.
"""
