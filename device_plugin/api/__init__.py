"""The kubelet's two interfaces for device plugins, as messages.

`deviceplugin_v1beta1` is what a plugin serves so that the kubelet learns of devices and hands them to containers;
`pluginregistration_v1` is how the kubelet learns of the plugin. The .proto files are written by hand. All the rest is
generated, is never edited, and is checked against its .proto by tests/device_plugin/test_api.py. Nothing here decides
anything.
"""
