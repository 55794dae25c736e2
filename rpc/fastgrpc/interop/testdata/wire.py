"""The test service's messages, written out as protobuf by hand.

So nothing need be generated: grpcio is all that the programs beside this take.
"""

SERVICE = "grpc.testing.TestService"
INITIAL = "x-grpc-test-echo-initial"
TRAILING = "x-grpc-test-echo-trailing-bin"


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


def read_varint(data, at):
    n = shift = 0
    while True:
        b = data[at]
        at += 1
        n |= (b & 0x7F) << shift
        shift += 7
        if b < 0x80:
            return n, at


def fields(data):
    """All of a message's fields as lists by number: ints, or bytes."""
    out = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        out.setdefault(tag >> 3, []).append(value)
    return out


def body(message, number):
    """The length of the body of the Payload in a field."""
    for p in fields(message).get(number, []):
        return len(fields(p).get(2, [b""])[0])
    return 0
