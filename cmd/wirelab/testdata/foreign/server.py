"""Serves a unary method of gRPC, and writes a line for each call before it answers.

python3 server.py FOLDER NUMBER [AGE], where AGE is the longest life of a connection in ms.
"""
import itertools, json, os, sys
from concurrent import futures

import grpc

log = os.open(sys.argv[1] + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
seen = itertools.count(1)


def get(request, context):
    abort = request == b"cut" and next(seen) % 20 == 0
    line = {"request": {"method": "POST", "proto": "HTTP/2"}, "received": len(request)}
    line.update({"status": 14, "size": 0} if abort else {"status": 200, "size": 5})
    os.write(log, json.dumps(line).encode() + b"\n")
    if abort:
        context.abort(grpc.StatusCode.UNAVAILABLE, "planned")
    return b"hello"


options = [("grpc.so_reuseport", 0)]
if len(sys.argv) > 3:
    options.append(("grpc.max_connection_age_ms", int(sys.argv[3])))
server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop.v1.Shop", {"Get": grpc.unary_unary_rpc_method_handler(get)})])
if not server.add_insecure_port("127.0.0.1:" + sys.argv[2]):
    sys.exit("cannot listen on port " + sys.argv[2])
server.start()
server.wait_for_termination()
