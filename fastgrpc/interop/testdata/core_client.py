"""Calls the interoperability test's service with gRPC's C core.

The messages are written out as protobuf by hand, so that nothing need be generated:
grpcio is all that this takes. Usage: core_client.py HOST:PORT
"""

import sys
import threading

import grpc

SERVICE = "/grpc.testing.TestService/"


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(tag, n):
    return varint(tag << 3) + varint(n)


def payload(size):
    """A Payload message: body is field 2."""
    return field(2, bytes(size))


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
    call = channel.unary_unary(SERVICE + "UnaryCall")
    for size in (0, 1, 16384, 314159):
        reply = call(simple_request(271828, size), timeout=10)
        check(f"unary of {size}", len(reply) >= size)
    reply = call(simple_request(1000, 100000), timeout=10, compression=grpc.Compression.Gzip)
    check("compressed unary", len(reply) >= 100000)
    metadata = (
        ("x-grpc-test-echo-initial", "value"),
        ("x-grpc-test-echo-trailing-bin", b"\x00\xff"),
    )
    _, done = call.with_call(simple_request(1, 1), timeout=10, metadata=metadata)
    check("header", ("x-grpc-test-echo-initial", "value") in [tuple(m) for m in done.initial_metadata()])
    check("trailer", ("x-grpc-test-echo-trailing-bin", b"\x00\xff") in [tuple(m) for m in done.trailing_metadata()])
    try:
        call(simple_request(status=(2, "test ☺ 😈\n")), timeout=10)
        check("status", False)
    except grpc.RpcError as e:
        check("status", e.code() == grpc.StatusCode.UNKNOWN and e.details() == "test ☺ 😈\n")
    missing = channel.unary_unary(SERVICE + "Missing")
    check("unimplemented", code_of(lambda: missing(b"", timeout=10)) == grpc.StatusCode.UNIMPLEMENTED)


def streams(channel):
    sizes = (31415, 9, 2653, 58979)
    output = channel.unary_stream(SERVICE + "StreamingOutputCall")
    replies = list(output(output_request(*sizes), timeout=10))
    check("output", [len(r) >= s for r, s in zip(replies, sizes)] == [True] * 4 and len(replies) == 4)
    call = channel.stream_unary(SERVICE + "StreamingInputCall")
    reply = call(iter([field(1, payload(s)) for s in sizes]), timeout=10)
    check("input", reply == number(1, sum(sizes)))
    duplex = channel.stream_stream(SERVICE + "FullDuplexCall")
    replies = list(duplex(iter([output_request(s) for s in sizes]), timeout=10))
    check("duplex", len(replies) == 4)
    check("deadline", code_of(lambda: list(duplex(never(), timeout=0.05))) == grpc.StatusCode.DEADLINE_EXCEEDED)
    cancelled = duplex(never())
    threading.Timer(0.05, cancelled.cancel).start()
    check("cancel", code_of(lambda: list(cancelled)) == grpc.StatusCode.CANCELLED)


def never():
    threading.Event().wait(2)
    yield b""


def concurrent(channel):
    call = channel.unary_unary(SERVICE + "UnaryCall")
    pending = [call.future(simple_request(100, i), timeout=20) for i in range(500)]
    check("concurrent", all(len(f.result()) >= i for i, f in enumerate(pending)))


with grpc.insecure_channel(sys.argv[1]) as channel:
    unary(channel)
    streams(channel)
    concurrent(channel)
