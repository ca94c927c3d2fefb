"""The service of podresources_v1.proto, typed by hand: protoc makes no types for services."""

import grpc

from installer.api import podresources_v1_pb2 as pb

class PodResourcesListerStub:
    """Calls the kubelet."""

    def __init__(self, channel: grpc.Channel) -> None: ...
    List: grpc.UnaryUnaryMultiCallable[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]

class PodResourcesListerServicer:
    """The kubelet's side; a method that is not overridden answers UNIMPLEMENTED."""

    def List(
        self, request: pb.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListPodResourcesResponse: ...

def add_PodResourcesListerServicer_to_server(servicer: PodResourcesListerServicer, server: grpc.Server) -> None: ...
