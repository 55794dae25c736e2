"""Calls grpc.testing.TestService by client.py, and prints what came:

    calls.py unix:path|host:port|tls:host:port  well|leave|without-calls|without-bytes|without-stream

The last three send what the server has not granted.
"""

import sys

import client
from client import DATA, END, REQUEST, Reader, sized, varint

SERVICE = "/grpc.testing.TestService/"


# Protocol Buffers, as far as the service's messages need them.


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + sized(value)


def fields(message):
    found, r = {}, Reader(message)
    while r.left:
        tag = r.number()
        found.setdefault(tag >> 3, []).append(r.bytes() if tag & 7 == 2 else r.number())
    return found


def request(body, code=0, text=""):
    """A SimpleRequest or StreamingOutputCallRequest: payload with body, and response_status."""
    return field(3, field(2, body)) + (field(7, field(1, code) + field(2, text.encode())) if text else b"")


def body(message):
    """The payload's body, of any answer."""
    payload = fields(message).get(1, [b""])[0]
    return fields(payload).get(2, [b""])[0]


def content(size, number):
    return (b"%d." % number * (size // 2 + 1))[:size]


# What is called.


def many(c):
    sizes = [0, 1, 64, 4000, 65000, 69600, 69632, 70000, 200000, 3000000] * 2
    calls = [c.begin(SERVICE + "UnaryCall", request(content(n, i))) for i, n in enumerate(sizes)]
    answers = [body(c.receive(call)) for call in calls]
    c.until(lambda: all(call.code == 0 for call in calls))
    print("many:", sum(a == content(n, i) for i, (n, a) in enumerate(zip(sizes, answers))), "answers")


def metadata(c):
    call = c.begin(SERVICE + "UnaryCall", request(b"x"), meta=[("echo", b"a\0b"), ("echo", b"c")], timeout=3600 * 1000000)
    print("metadata:", body(c.receive(call)), end=" ")
    c.until(lambda: call.code is not None)
    print(call.code, call.header, call.trailer)


def failures(c):
    call = c.begin(SERVICE + "UnaryCall", request(b"why", 5, "nothing here"))
    assert c.receive(call) is None
    rich = fields(call.details)
    detail = fields(rich[3][0])
    print("status:", call.code, call.text, rich[1], rich[2], detail[1], fields(detail[2][0])[2])
    for name, call in [
        ("deadline", c.begin(SERVICE + "UnaryCall", request(b"", 0, "wait"), timeout=20000)),
        ("unknown", c.begin(SERVICE + "NoSuchCall", b"")),
        ("too long", c.begin(SERVICE + "UnaryCall", request(bytes(5 << 20)))),
        ("no message", c.begin(SERVICE + "UnaryCall")),
        ("malformed", c.begin(SERVICE + "UnaryCall", b"\xff")),
    ]:
        assert c.receive(call) is None
        print(f"{name}: {call.code}")
    call = c.begin(SERVICE + "UnaryCall", request(b"1"), end=False)
    c.send(call, request(b"2"), end=True)
    assert c.receive(call) is None
    print(f"two messages: {call.code} {call.text}")


def cancelled(c):
    for i in range(40):
        call = c.begin(SERVICE + "UnaryCall", request(b"", 0, "wait"))
        c.until(lambda: call.stream or i % 3 == 0)
        c.cancel(call)
    print("cancelled:", body(c.receive(c.begin(SERVICE + "UnaryCall", request(b"after")))))


def streams(c):
    up = c.begin(SERVICE + "StreamingInputCall", end=False)
    for _ in range(100):
        c.send(up, field(1, field(2, bytes(20000))))
    c.send(up, field(1, field(2, bytes(1000000))))
    c.send(up, None, end=True)
    print("up:", fields(c.receive(up))[1], c.receive(up), up.code)

    sizes = [i * 3000 for i in range(60)] + [1000000]
    down = c.begin(SERVICE + "StreamingOutputCall", b"".join(field(2, field(1, n)) for n in sizes))
    other = c.begin(SERVICE + "UnaryCall", request(b"by"))  # passes by the stream that is not read
    print("other:", body(c.receive(other)), len(down.inbox) < len(sizes))
    print("down:", [len(body(c.receive(down))) for _ in sizes] == sizes, c.receive(down), down.code)

    both = c.begin(SERVICE + "FullDuplexCall", end=False)
    for i in range(50):
        c.send(both, request(content(i * i * 100, i)))
        assert body(c.receive(both)) == content(i * i * 100, i)
    c.send(both, None, end=True)
    print("both:", c.receive(both), both.code)


def ping(c):
    c.frame(client.PING, 0, 0, b"12345678")
    c.until(lambda: c.pongs == 1)
    print("ping: answered")


def well(c):
    for what in (many, metadata, failures, cancelled, streams, ping):
        what(c)
    assert not c.calls


def leave(c):
    """Has a call open while the server says goodbye, and ends it after that."""
    both = c.begin(SERVICE + "FullDuplexCall", request(b"1"), end=False)
    print("open:", body(c.receive(both)), flush=True)
    c.until(lambda: c.goodbye is not None)
    late = c.begin(SERVICE + "UnaryCall", request(b""))
    print("late:", c.receive(late), late.text)
    c.send(both, request(b"2"), end=True)
    print("goodbye:", c.goodbye, body(c.receive(both)), c.receive(both), both.code)
    c.step()


def begin(c, times, message, flags=END):
    c.frame(client.METHOD, 0, 0, (SERVICE + "UnaryCall").encode())
    for i in range(times):
        c.frame(REQUEST, flags, i + 1, bytes(3) + message)


def without_calls(c):
    begin(c, c.may_begin + 1, request(b"", 0, "wait"))


def without_bytes(c):
    message = request(bytes(2000))
    begin(c, c.credit // len(message) + 1, message, 0)  # no End: the handlers do not run yet


def without_stream(c):
    begin(c, 0, b"")
    c.frame(REQUEST, 0, 1, bytes(3))  # no End: the handler does not run yet, and nobody reads
    c.last = 1
    for _ in range(c.peer[client.PER_STREAM] // 50000 + 1):
        c.frame(DATA, 0, 1, bytes(50000))


if __name__ == "__main__":
    connection = client.connect(sys.argv[1])
    try:
        globals()[sys.argv[2].replace("-", "_")](connection)
        while sys.argv[2].startswith("without"):
            connection.last = 1 << 31
            connection.step()
    except ConnectionError as e:
        # What lies unread when the server closes makes it a reset.
        reset = isinstance(e, (BrokenPipeError, ConnectionResetError))
        print("closed:", "the server closed the connection" if reset else e)
