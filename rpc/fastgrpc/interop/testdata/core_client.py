"""Calls the interoperability test's service with gRPC's C core.

Usage: core_client.py HOST:PORT [ROOT-CERTIFICATES SERVER-NAME]
"""

import sys
import threading

import grpc
from wire import INITIAL, SERVICE, TRAILING, field, fields, number, payload


PREFIX = f"/{SERVICE}/"


def simple_request(request_size=0, response_size=0, status=None):
    out = number(2, response_size) + field(3, payload(request_size))
    if status:
        code, message = status
        out += field(7, number(1, code) + field(2, message.encode()))
    return out


def output_request(*sizes):
    return b"".join(field(2, number(1, s)) for s in sizes)


def check(what, ok):
    if not ok:
        raise SystemExit(f"{what} failed")


def code_of(call):
    try:
        call()
    except grpc.RpcError as e:
        return e.code()
    return grpc.StatusCode.OK


def unary(channel):
    call = channel.unary_unary(PREFIX + "UnaryCall")
    for size in (0, 1, 16384, 314159):
        reply = call(simple_request(271828, size), timeout=10)
        check(f"unary of {size}", len(reply) >= size)
    reply = call(simple_request(1000, 100000), timeout=10, compression=grpc.Compression.Gzip)
    check("compressed unary", len(reply) >= 100000)
    metadata = ((INITIAL, "value"), (TRAILING, b"\x00\xff"))
    _, done = call.with_call(simple_request(1, 1), timeout=10, metadata=metadata)
    check("header", (INITIAL, "value") in [tuple(m) for m in done.initial_metadata()])
    check("trailer", (TRAILING, b"\x00\xff") in [tuple(m) for m in done.trailing_metadata()])
    try:
        call(simple_request(status=(2, "test ☺ 😈\n")), timeout=10)
        check("status", False)
    except grpc.RpcError as e:
        check("status", e.code() == grpc.StatusCode.UNKNOWN and e.details() == "test ☺ 😈\n")
    try:
        channel.unary_unary("/test.Details/Fail")(b"", timeout=10)
        check("details", False)
    except grpc.RpcError as e:
        # A google.rpc.Status: code, message, and any number of Any.
        packed = dict(tuple(m) for m in e.trailing_metadata())["grpc-status-details-bin"]
        status = fields(packed)
        check("details", status[1] == [9] and status[2] == [b"not now"] and len(status[3]) == 2)
    check("unary deadline", code_of(lambda: channel.unary_unary("/test.Details/Wait")(b"", timeout=0.05)) == grpc.StatusCode.DEADLINE_EXCEEDED)
    missing = channel.unary_unary(PREFIX + "Missing")
    check("unimplemented", code_of(lambda: missing(b"", timeout=10)) == grpc.StatusCode.UNIMPLEMENTED)


def streams(channel):
    sizes = (31415, 9, 2653, 58979)
    output = channel.unary_stream(PREFIX + "StreamingOutputCall")
    replies = list(output(output_request(*sizes), timeout=10))
    check("output", [len(r) >= s for r, s in zip(replies, sizes)] == [True] * 4 and len(replies) == 4)
    call = channel.stream_unary(PREFIX + "StreamingInputCall")
    reply = call(iter([field(1, payload(s)) for s in sizes]), timeout=10)
    check("input", reply == number(1, sum(sizes)))
    duplex = channel.stream_stream(PREFIX + "FullDuplexCall")
    replies = list(duplex(iter([output_request(s) for s in sizes]), timeout=10))
    check("duplex", len(replies) == 4)
    check("deadline", code_of(lambda: list(duplex(never(), timeout=0.05))) == grpc.StatusCode.DEADLINE_EXCEEDED)
    cancelled = duplex(never())
    threading.Timer(0.05, cancelled.cancel).start()
    check("cancel", code_of(lambda: list(cancelled)) == grpc.StatusCode.CANCELLED)


def compressed(channel):
    """Every kind of call, with both sides compressed."""
    sizes = (31415, 9, 2653, 58979)
    options = {"timeout": 10, "compression": grpc.Compression.Gzip}
    replies = list(channel.unary_stream(PREFIX + "StreamingOutputCall")(output_request(*sizes), **options))
    check("compressed output", len(replies) == 4)
    reply = channel.stream_unary(PREFIX + "StreamingInputCall")(iter([field(1, payload(s)) for s in sizes]), **options)
    check("compressed input", reply == number(1, sum(sizes)))
    replies = list(channel.stream_stream(PREFIX + "FullDuplexCall")(iter([output_request(s) for s in sizes]), **options))
    check("compressed duplex", [len(r) >= s for r, s in zip(replies, sizes)] == [True] * 4)


def never():
    threading.Event().wait(2)
    yield b""


def concurrent(channel):
    call = channel.unary_unary(PREFIX + "UnaryCall")
    pending = [call.future(simple_request(100, i), timeout=20) for i in range(500)]
    check("concurrent", all(len(f.result()) >= i for i, f in enumerate(pending)))


if len(sys.argv) > 2:
    with open(sys.argv[2], "rb") as roots:
        credentials = grpc.ssl_channel_credentials(roots.read())
    channel = grpc.secure_channel(sys.argv[1], credentials, (("grpc.ssl_target_name_override", sys.argv[3]),))
else:
    channel = grpc.insecure_channel(sys.argv[1])
with channel:
    unary(channel)
    streams(channel)
    compressed(channel)
    concurrent(channel)
