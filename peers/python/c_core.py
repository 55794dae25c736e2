"""Prints C-core's own version, which is not grpcio's and is in the user agent of its channels
only: asks a server of its own what it saw."""

import re
from concurrent import futures

import grpc


class Agent(grpc.GenericRpcHandler):
    seen = ""

    def service(self, handler_call_details):
        Agent.seen = dict(handler_call_details.invocation_metadata)["user-agent"]


server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Agent()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    try:
        channel.unary_unary("/any/Method")(b"", timeout=60)
    except grpc.RpcError:
        pass  # there is no such method
server.stop(None).wait()
print(f'VERSION = "{re.search("grpc-c/([^ ]+)", Agent.seen)[1]}"')
