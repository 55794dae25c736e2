"""Serves the interoperability test's service with gRPC's C core.

It prints the port it listens on and serves until its input ends.
Usage: core_server.py [CERTIFICATE KEY]
"""

import sys
import time
from concurrent import futures

import grpc
from wire import INITIAL, SERVICE, TRAILING, body, field, fields, number, payload


def echo_metadata(context):
    for key, value in context.invocation_metadata():
        if key == INITIAL:
            context.send_initial_metadata(((key, value),))
        elif key == TRAILING:
            context.set_trailing_metadata(((key, value),))
        elif key == "want-details-bin":
            context.set_trailing_metadata((("grpc-status-details-bin", value),))


CODES = {c.value[0]: c for c in grpc.StatusCode}


def check_status(request, field_number, context):
    for status in fields(request).get(field_number, []):
        status = fields(status)
        if code := status.get(1, [0])[0]:
            context.abort(CODES[code], status.get(2, [b""])[0].decode())


def empty(request, context):
    return b""


def unary(request, context):
    echo_metadata(context)
    check_status(request, 7, context)
    name = field(4, b"core") if fields(request).get(9, [0])[0] else b""
    return field(1, payload(fields(request).get(2, [0])[0])) + name


def outputs(request):
    for p in fields(request).get(2, []):
        p = fields(p)
        time.sleep(p.get(2, [0])[0] / 1e6)
        yield field(1, payload(p.get(1, [0])[0]))


def output(request, context):
    yield from outputs(request)


def collect(requests, context):
    return number(1, sum(body(r, 1) for r in requests))


def duplex(requests, context):
    echo_metadata(context)
    for r in requests:
        check_status(r, 7, context)
        yield from outputs(r)


HANDLERS = {
    "EmptyCall": grpc.unary_unary_rpc_method_handler(empty),
    "UnaryCall": grpc.unary_unary_rpc_method_handler(unary),
    "StreamingOutputCall": grpc.unary_stream_rpc_method_handler(output),
    "StreamingInputCall": grpc.stream_unary_rpc_method_handler(collect),
    "FullDuplexCall": grpc.stream_stream_rpc_method_handler(duplex),
}

server = grpc.server(futures.ThreadPoolExecutor(max_workers=20), compression=grpc.Compression.Gzip)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, HANDLERS),))
if len(sys.argv) > 1:
    with open(sys.argv[1], "rb") as certificate, open(sys.argv[2], "rb") as key:
        credentials = grpc.ssl_server_credentials(((key.read(), certificate.read()),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
sys.stdin.read()
server.stop(0)
