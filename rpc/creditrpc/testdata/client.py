"""A client of creditrpc, written from docs/creditrpc.md and nothing else, for the tests."""

import collections
import socket
import ssl

HELLO, METHOD, REQUEST, DATA, HEADER, STATUS, CANCEL, CREDIT, PING, GOODBYE = range(10)
MORE, END, NOTHING, LONG, ANSWER = 0x10, 0x20, 0x40, 0x80, 0x10
TURN, OVERHEAD, LEAST, LARGEST = 69632, 64, 139392, 4 << 20
WINDOW, PER_STREAM, CALLS, MAX_MESSAGE, MAX_META = 1, 2, 3, 4, 5


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def sized(b):
    return varint(len(b)) + b


class Reader:
    """Takes a payload apart."""

    def __init__(self, left):
        self.left = left

    def number(self):
        value, shift = 0, 0
        while True:
            byte, self.left = self.left[0], self.left[1:]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def bytes(self):
        n = self.number()
        taken, self.left = self.left[:n], self.left[n:]
        assert len(taken) == n
        return taken

    def meta(self):
        pairs = []
        while self.left:
            pairs.append((self.bytes().decode(), self.bytes()))
        return pairs


class Call:
    """One call. Of status, code is None while it is not over."""

    def __init__(self, head, credit):
        self.head, self.credit = head, credit  # the Request's begin; what may be sent
        self.stream, self.out, self.at = 0, collections.deque(), 0
        self.left, self.back = LEAST, 0  # what the server may send; what is not granted again yet
        self.inbox, self.partial, self.whole = collections.deque(), b"", None
        self.header, self.code, self.text, self.details, self.trailer = [], None, "", b"", []


class Connection:
    def __init__(self, sock):
        sock.settimeout(60)  # a test fails rather than waits
        self.sock, self.input, self.peer = sock, sock.makefile("rb"), None
        self.methods, self.calls, self.last = {}, {}, 0
        self.opening, self.sending = collections.deque(), collections.deque()
        self.left, self.back, self.pongs, self.goodbye = LEAST, 0, 0, None
        settings = [(WINDOW, LEAST), (PER_STREAM, LEAST), (MAX_MESSAGE, LARGEST), (MAX_META, 16384), (1000, 7)]
        self.frame(HELLO, 0, 0, b"CRPC" + varint(1) + b"".join(varint(k) + varint(v) for k, v in settings))
        self.step()
        self.credit, self.may_begin = self.peer[WINDOW], self.peer.get(CALLS, 0)

    def frame(self, kind, flags, stream, payload):
        # It reads nothing meanwhile, which is right as long as few statuses are under way.
        self.sock.sendall(len(payload).to_bytes(3, "big") + bytes([kind | flags]) + stream.to_bytes(4, "big") + payload)

    # Sending.

    def begin(self, method, message=None, end=True, timeout=0, meta=()):
        if method not in self.methods:
            self.methods[method] = len(self.methods)
            self.frame(METHOD, 0, 0, method.encode())
        pairs = b"".join(sized(k.encode()) + sized(v) for k, v in meta)
        call = Call(varint(self.methods[method]) + varint(timeout) + sized(pairs), self.peer[PER_STREAM])
        call.out.append((message, end))
        self.opening.append(call)
        return call

    def send(self, call, message, end=False):
        call.out.append((message, end))
        if len(call.out) == 1:
            self.sending.append(call)

    def cancel(self, call):
        if call.stream:
            self.frame(CANCEL, 0, call.stream, b"")
        elif call in self.opening:
            self.opening.remove(call)
        else:
            self.may_begin += 1  # it waits for bytes
        self.over(call, 1, "cancelled")

    def pump(self):
        """Sends what there is credit for: the first of those that wait, and then the next."""
        while self.opening and self.may_begin > 0:
            self.may_begin -= 1
            self.sending.append(self.opening.popleft())
        while self.sending and (turn := self.turn(self.sending[0])) is not None:
            call = self.sending.popleft()
            if turn and call.out:
                self.sending.append(call)

    def turn(self, call):
        """Sends a part: False if the stream has no credit and waits apart, None if the connection has none."""
        message, end = call.out[0]
        head, flags, most = call.head, 0, min(TURN, call.credit - OVERHEAD)
        rest = (message or b"")[call.at:]
        if message is None:
            flags = NOTHING
        elif call.at == 0 and len(head) + len(rest) > most:
            head, flags = head + varint(len(message)), LONG
        part = rest[:max(0, most - len(head))]
        if most < len(head) or rest and not part:
            return False
        payload = head + part
        if self.credit < len(payload) + OVERHEAD:
            return None
        self.credit -= len(payload) + OVERHEAD
        call.credit -= len(payload) + OVERHEAD
        call.at += len(part)
        done = len(part) == len(rest)
        flags |= (END if end else 0) if done else MORE
        kind = DATA
        if not call.stream:
            self.last += 1
            call.stream, kind = self.last, REQUEST
            self.calls[call.stream] = call
        call.head = b""
        self.frame(kind, flags, call.stream, payload)
        if done:
            call.out.popleft()
            call.at = 0
        return True

    # Receiving.

    def read(self, n):
        data = self.input.read(n)
        if len(data) < n:
            raise ConnectionError("the server closed the connection")
        return data

    def step(self):
        """Reads a frame."""
        head = self.read(8)
        kind, flags, stream = head[3] & 15, head[3] & 0xF0, int.from_bytes(head[4:], "big")
        r = Reader(self.read(int.from_bytes(head[:3], "big")))
        call = self.calls.get(stream)
        assert stream <= self.last
        if self.peer is None:
            assert kind == HELLO and r.left[:4] == b"CRPC"
            r.left = r.left[4:]
            assert r.number() == 1
            self.peer = {}
            while r.left:
                key = r.number()
                self.peer[key] = r.number()
            assert min(self.peer[WINDOW], self.peer[PER_STREAM]) >= LEAST
        elif kind == DATA:
            self.data(call, flags, r)
        elif kind == HEADER and call:
            call.header = r.meta()
        elif kind == STATUS and call:
            self.over(call, r.number(), r.bytes().decode(), r.bytes(), r.meta())
        elif kind == CANCEL and call:
            self.over(call, 14, "not begun")
        elif kind == CREDIT:
            granted, calls = r.number(), r.number()
            if stream == 0:
                self.credit, self.may_begin = self.credit + granted, self.may_begin + calls
            elif call:
                call.credit += granted
                if call.out and call not in self.sending:
                    self.sending.append(call)
        elif kind == PING and flags & ANSWER:
            self.pongs += 1
        elif kind == PING:
            self.frame(PING, ANSWER, 0, r.left)
        elif kind == GOODBYE:
            self.goodbye = r.number()
            for call in [c for c in self.calls.values() if c.stream > self.goodbye]:
                self.over(call, 14, "not begun")
        else:
            assert kind in (HEADER, STATUS, CANCEL)  # of a call that is over

    def data(self, call, flags, r):
        cost = len(r.left) + OVERHEAD
        self.left -= cost
        assert self.left >= 0, "the server sends without credit"
        self.back += cost
        if self.back >= LEAST // 8:
            self.frame(CREDIT, 0, 0, varint(self.back) + varint(0))
            self.left, self.back = self.left + self.back, 0
        if call is None:
            return
        call.left -= cost
        assert call.left >= 0, "the server sends on a stream without credit"
        if flags & LONG:
            call.whole = r.number()
        assert not flags & MORE or call.whole is not None
        assert not flags & NOTHING or not r.left
        returned = cost
        if not flags & NOTHING:
            call.partial += r.left
            if (call.whole or 0) < LEAST // 2:
                returned = cost - len(r.left)
        self.give_back(call, returned)
        if not flags & (MORE | NOTHING):
            assert call.whole in (None, len(call.partial))
            call.inbox.append((call.partial, 0 if (call.whole or 0) >= LEAST // 2 else len(call.partial)))
            call.partial, call.whole = b"", None
        if flags & END:
            self.over(call, 0)

    def give_back(self, call, cost):
        call.back += cost
        if call.back >= LEAST // 8 and call.code is None:
            self.frame(CREDIT, 0, call.stream, varint(call.back) + varint(0))
            call.left, call.back = call.left + call.back, 0

    def over(self, call, code, text="", details=b"", trailer=()):
        self.calls.pop(call.stream, None)
        if call in self.sending:
            self.sending.remove(call)
        call.out.clear()
        call.code, call.text, call.details, call.trailer = code, text, details, list(trailer)

    def until(self, what):
        self.pump()
        while not what():
            self.step()
            self.pump()

    def receive(self, call):
        """The next message, or None after the last."""
        self.until(lambda: call.inbox or call.code is not None)
        if not call.inbox:
            return None
        message, credit = call.inbox.popleft()
        self.give_back(call, credit)
        return message


def connect(target):
    """Connects to unix:path, host:port, or tls:host:port."""
    kind, _, address = target.partition(":")
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(address)
        return Connection(sock)
    host, _, port = target.removeprefix("tls:").rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if kind == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the test's own certificate
        context.set_alpn_protocols(["creditrpc/1"])
        sock = context.wrap_socket(sock)
        assert sock.selected_alpn_protocol() == "creditrpc/1"
    return Connection(sock)
