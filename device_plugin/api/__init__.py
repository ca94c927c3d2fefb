"""The kubelet's interfaces for device plugins and for drivers of Dynamic Resource Allocation (DRA), as messages.

`deviceplugin_v1beta1` is what a plugin serves so that the kubelet learns of devices and hands them to containers;
`dra_v1` and `dra_health_v1alpha1` are what a driver serves; `pluginregistration_v1` is how the kubelet learns of both.
The .proto files are written by hand. All the rest is generated, is never edited, and is checked against its .proto by
tests/device_plugin/test_api.py. Nothing here decides anything.
"""
