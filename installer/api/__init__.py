"""The kubelet's interface that says which pods hold which devices, as messages and stubs.

The .proto file and the types of its service (*_pb2_grpc.pyi: protoc makes none) are written by hand. All the rest is
generated, is never edited, and is checked against its .proto by tests/installer/test_device_holders.py.
"""
