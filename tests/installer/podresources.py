"""A stand-in kubelet: a real gRPC server on the pod-resources socket of a host's folder."""

import os
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc

from installer.drain import device_holders
from runtime import pod_resources
from runtime.api import podresources_v1_pb2 as pb


class Kubelet:
    """Names the given pods, by namespace/name."""

    def __init__(self) -> None:
        """Knows nobody."""
        self.pods: dict[str, list[pb.ContainerResources]] = {}
        self.failure: grpc.StatusCode | None = None
        self.latency_s = 0.0
        self.asked = 0

    def give(self, key: str, container: str, resource: str, *devices: str) -> None:
        """A container of a pod has these devices."""
        given = pb.ContainerDevices(resource_name=resource, device_ids=devices)
        self.pods.setdefault(key, []).append(pb.ContainerResources(name=container, devices=[given]))

    def prepare(self, key: str, container: str, driver: str, *devices: str) -> None:
        """A container of a pod has these devices by a claim."""
        given = [pb.ClaimResource(driver_name=driver, pool_name="n", device_name=device) for device in devices]
        claim = pb.DynamicResource(claim_name="c", claim_namespace=key.partition("/")[0], claim_resources=given)
        self.pods.setdefault(key, []).append(pb.ContainerResources(name=container, dynamic_resources=[claim]))

    def remove(self, key: str) -> None:
        """The pod's containers have ended."""
        self.pods.pop(key, None)

    def listed(self, request: pb.ListPodResourcesRequest, context: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        """Answer as the kubelet, or fail as the test set it."""
        self.asked += 1
        deadline = time.monotonic() + self.latency_s
        while time.monotonic() < deadline and context.is_active():
            time.sleep(0.005)
        if self.failure is not None:
            context.abort(self.failure, "as the test says")
        pods = []
        for key, containers in self.pods.items():
            namespace, _, name = key.partition("/")
            pods.append(pb.PodResources(name=name, namespace=namespace, containers=containers))
        return pb.ListPodResourcesResponse(pod_resources=pods)


@contextmanager
def serving(root: Path, folder_of_kubelet: Path = device_holders.KUBELET) -> Iterator[Kubelet]:
    """A kubelet at the socket in its folder below a host's root."""
    kubelet = Kubelet()
    path = root / str(folder_of_kubelet / device_holders.SOCKET).lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The address of a Unix socket has at most 107 bytes (unix(7)); a test's folder may have a longer path.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=4), options=[("grpc.max_send_message_length", 256 << 20)]
    )
    service, _, method = pod_resources.LIST.removeprefix("/").partition("/")
    handler = grpc.unary_unary_rpc_method_handler(
        kubelet.listed,
        request_deserializer=pb.ListPodResourcesRequest.FromString,
        response_serializer=pb.ListPodResourcesResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(f"unix:/proc/self/fd/{folder}/{path.name}")
    server.start()
    try:
        yield kubelet
    finally:
        server.stop(grace=None).wait()
        os.close(folder)
        path.unlink(missing_ok=True)
