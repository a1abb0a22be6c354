"""gRPC interceptors: an RPC is two messages, the request and the reply (Berry, 3.3).

::

    channel = grpc.intercept_channel(channel, ClientInterceptor(reporter))
    server = grpc.server(pool, interceptors=[ServerInterceptor(reporter)])
    channel = grpc.aio.insecure_channel(target, interceptors=aio_client_interceptors(reporter))
    server = grpc.aio.server(interceptors=[AioServerInterceptor(reporter)])

The four events of a call: ``call`` at the client, ``serve`` and ``answer`` at the server, ``answered`` at the client. The
request's cause travels in the metadata, the reply's in the trailing metadata, that of an error included. A reply without
one tells nothing of the server, and ``answered`` says so: the server does not take part, or (UNAVAILABLE, DEADLINE_EXCEEDED,
CANCELLED) no answer came.

Each call that a server serves is a line of its own, such as ``/shop.Payment/Pay #k2m7xe-17``.

HAZARD: metadata travels once in each direction. In a stream, what a side does after it began to send is known to the other
side only at the end of the stream (server to client), or not at all (client to server). Nothing false is said; a true
"before" may be missing.
"""

from whence.reporting.grpc.aio import AioServerInterceptor, aio_client_interceptors
from whence.reporting.grpc.client import ClientInterceptor
from whence.reporting.grpc.server import ServerInterceptor

__all__ = ["ClientInterceptor", "ServerInterceptor", "aio_client_interceptors", "AioServerInterceptor"]
