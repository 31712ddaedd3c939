"""HTTP/1.1 for the node: h11 parses, an `asyncio.Protocol` carries, and handlers are handed in by routes.

Knows no model and no dialect. One connection answers one request at a time, in order. The parts that decide
(`inbox`, `exchange`, `coding`, `cors`, `router`, `fault`, `answer`) touch no socket.
"""

from node.http.cors import Cors
from node.http.fault import Fault
from node.http.limits import HttpLimits
from node.http.message import Headers, Request, Response, StreamResponse
from node.http.router import Handler, Router
from node.http.server import Server
from node.http.service import Statistics

__all__ = [
    "Cors",
    "Fault",
    "Handler",
    "Headers",
    "HttpLimits",
    "Request",
    "Response",
    "Router",
    "Server",
    "Statistics",
    "StreamResponse",
]
