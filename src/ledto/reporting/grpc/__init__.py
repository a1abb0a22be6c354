"""Take a `Reporter`; give interceptors that report the calls of gRPC clients and servers.

A call is two messages: the request and the reply (Berry, 3.3).

    >>> import asyncio, concurrent.futures, grpc
    >>> channel = grpc.intercept_channel(grpc.insecure_channel("localhost:50051"), ClientInterceptor(reporter))
    >>> pool = concurrent.futures.ThreadPoolExecutor(4)
    >>> server = grpc.server(pool, interceptors=[ServerInterceptor(reporter)])
    >>> async def with_asyncio():
    ...     channel = grpc.aio.insecure_channel("localhost:50051", interceptors=aio_client_interceptors(reporter))
    ...     server = grpc.aio.server(interceptors=[AioServerInterceptor(reporter)])
    >>> asyncio.run(with_asyncio())

A call has four events: ``call`` at the client, ``serve`` and ``answer`` at the server, ``answered`` at the client. The
request's cause is in its metadata, and the reply's in its trailing metadata, also in that of an error. If a reply has no
cause, ``answered`` says why: the server does not report, or no answer came (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED).

Each call that a server serves is a line of its own, such as ``/shop.Payment/Pay #k2m7xe-17``. Its events::

    {"process":"pay@k2m7","seq":1,"kind":"receive","name":"serve /shop.Payment/Pay","receives":"shop@q4dx:3", ...}
    {"process":"pay@k2m7","seq":2,"kind":"send","name":"answer /shop.Payment/Pay","sends":"pay@k2m7:2", ...}

HAZARD: metadata goes once in each direction. In a stream, the client learns only at the end what the server did after it
began to send, and the server never learns it of the client. No order is false, but a true "before" may be missing.
"""

from ledto.reporting.grpc.aio import AioServerInterceptor, aio_client_interceptors
from ledto.reporting.grpc.client import ClientInterceptor
from ledto.reporting.grpc.server import ServerInterceptor

__all__ = ["ClientInterceptor", "ServerInterceptor", "aio_client_interceptors", "AioServerInterceptor"]
