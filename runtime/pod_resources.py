"""The kubelet's list of the devices that pods have, from its socket of pod resources.

It needs grpc and its messages, which take 20 MB: who needs them rarely imports it where it asks.
"""

from typing import Any

from runtime.api import podresources_v1_pb2 as api

LIST = "/v1.PodResourcesLister/List"
"""The one method that is called (k8s.io/kubelet/pkg/apis/podresources/v1/api.proto)."""

_MESSAGE_BYTES = 64 << 20
"""A node may have more pods than fit in gRPC's default of 4 MiB."""

OPTIONS = (
    ("grpc.default_authority", "localhost"),  # The kubelet's server refuses gRPC's default, the path.
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # A separate connection, which ends with this call.
)
"""The options of a channel to the socket."""


def listed(channel: Any, within_s: float) -> Any:
    """Return the ListPodResourcesResponse of a channel of grpc, or of grpc.aio an awaitable one; raises as they do."""
    lister = channel.unary_unary(
        LIST,
        request_serializer=api.ListPodResourcesRequest.SerializeToString,
        response_deserializer=api.ListPodResourcesResponse.FromString,
    )
    return lister(api.ListPodResourcesRequest(), timeout=within_s)
