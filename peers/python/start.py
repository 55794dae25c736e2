#!/usr/bin/env python3
"""A worker of wirelab in Python: server and client of the workloads echo, ping and chat over
grpcio, and so gRPC's C-core, written from docs/worker-contract.md. It is here to be understood
by others, not to be fast. One thread, with asyncio."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

import asyncio
import glob
import json
import os
import platform
import random
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

import google.protobuf
import grpc
from grpc import aio

import c_core  # written by build.sh
import chat_pb2
import chat_pb2_grpc
import echo_pb2
import echo_pb2_grpc
import ping_pb2
import ping_pb2_grpc

CONTRACT = 1
MAX_MESSAGE_BYTES = 16 << 20
CAPABILITIES = {
    "contract": CONTRACT,
    "roles": ["server", "client"],
    "stacks": {"grpc": []},
    "workloads": ["echo", "ping", "chat"],
    "loads": ["closed"],
    "connections": ["shared", "per-worker", "pool"],
}

# A client's times, in seconds.
PROGRESS = 0.25
WARM_UP = 1
CONNECT = 10
NOTICE = 0.005  # the window opens so much ahead of time, so that callers know it when it begins
END = 1  # for calls that began after the window; then they are cancelled

# Options of C-core that are not its defaults: name, value, default, why.
MESSAGE_OPTION = ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES, 4 << 20, "as wirelab's own ends")
KEPT = "a peer that stops in the middle is not kept"
SERVER_OPTIONS = [
    MESSAGE_OPTION,
    ("grpc.so_reuseport", 0, 1, "a port that is taken is a failure"),
    ("grpc.server_handshake_timeout_ms", 10_000, 120_000, KEPT),
    ("grpc.keepalive_time_ms", 10_000, 7_200_000, KEPT),
    ("grpc.keepalive_timeout_ms", 10_000, 20_000, KEPT),
    ("grpc.keepalive_permit_without_calls", 1, 0, KEPT),
    ("grpc.http2.max_pings_without_data", 0, 2, KEPT + "; 0: any number"),
]
CLIENT_OPTIONS = [
    MESSAGE_OPTION,
    ("grpc.use_local_subchannel_pool", 1, 0, "else channels to one address share a connection"),
]


class Refusal(Exception):
    """Why this worker gives up, in words for a person."""


# --- The contract: a spec in, events out.


def emit(event, part):
    print(json.dumps({"event": event, event: part}), flush=True)


def ready(address, side, options):
    runtime = (
        f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()}), "
        f"grpcio {grpc.__version__} (aio, C-core {c_core.VERSION}), "
        f"protobuf {google.protobuf.__version__} ({message_implementation()})"
    )
    settings = [
        {"side": side, "name": name, "value": str(value), "default": str(default), "why": why}
        for name, value, default, why in options
    ]
    emit("ready", {
        "contract": CONTRACT, "address": address, "pid": os.getpid(), "runtime": runtime, "settings": settings,
    })


def message_implementation():
    from google.protobuf.internal import api_implementation

    return api_implementation.Type()


def parse(line):
    try:
        spec = json.loads(line)
    except ValueError as e:
        raise Refusal(f"worker spec: {e}") from e
    if not isinstance(spec, dict) or spec.get("contract") != CONTRACT:
        found = spec.get("contract", 0) if isinstance(spec, dict) else 0
        raise Refusal(f"worker spec: contract version {found}: this worker implements version {CONTRACT}")
    role = spec.get("role", "")
    if role == "capabilities":
        return spec
    if role not in CAPABILITIES["roles"]:
        raise Refusal(f'worker spec: role "{role}": want server, client or capabilities')
    check_work(spec)
    if role == "client":
        check_client(spec)
    return spec


def check_work(spec):
    name, _, options = spec.get("stack", "").partition(":")
    if name not in CAPABILITIES["stacks"]:
        raise Refusal(f'stack "{name}": this peer has grpc')
    if options:
        raise Refusal(f"variant {spec['stack']}: the Python peer has no options")
    workload = spec.setdefault("workload", {})
    if workload.get("name", "") not in CAPABILITIES["workloads"]:
        raise Refusal(f'workload "{workload.get("name", "")}": this peer has echo, ping and chat, without options')
    if workload.get("request_bytes", 0) != workload.get("response_bytes", 0):
        raise Refusal("sizes: this peer answers with what came, not with another size")
    if not re.fullmatch(r".+:\d+", spec.get("address", "")):
        raise Refusal(f'worker spec: address "{spec.get("address", "")}": want HOST:PORT')


def check_client(spec):
    client = spec.get("client") or {}
    load = client.setdefault("load", {})
    if client.get("clients", 0) < 1:
        raise Refusal('worker spec: role client needs the part "client" with at least 1 of "clients"')
    if load.get("model") not in CAPABILITIES["loads"]:
        raise Refusal(f'load "{load.get("model", "")}": the Python peer has closed')
    if load.get("requests_per_client", 0) <= 0 and load.get("duration_ns", 0) <= 0:
        raise Refusal("load closed: want requests_per_client or duration_ns")
    if not client.get("calls_file"):
        raise Refusal("worker spec: calls_file is empty: the Python peer writes down its calls, and counts nothing itself")
    if client.get("sources", 0) > 1:
        raise Refusal(f"sources {client['sources']}: the Python peer dials from one address")
    connections_of(client)


def connections_of(client):
    """How many connections the mode asks for."""
    mode = client.get("connection", "")
    if mode == "shared":
        return 1
    if mode in ("per-worker", "pool"):
        return client["clients"]
    if re.fullmatch(r"pool:[1-9]\d{0,8}", mode):
        return int(mode.removeprefix("pool:"))
    raise Refusal(f'connection "{mode}": the Python peer has shared, per-worker, pool and pool:N')


# --- The server.


async def refuse_other_sizes(message, context):
    if message.HasField("answer_bytes"):
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED, "this server answers with what came, not with another size")


class Echo(echo_pb2_grpc.EchoServiceServicer):
    async def Echo(self, request, context):
        await refuse_other_sizes(request, context)
        request.timestamp = time.time_ns()
        return request


class Ping(ping_pb2_grpc.PingServiceServicer):
    async def Ping(self, request, context):
        return ping_pb2.PingResponse()


class Chat(chat_pb2_grpc.ChatServiceServicer):
    async def Chat(self, requests, context):
        async for message in requests:
            await refuse_other_sizes(message, context)
            yield message


SERVICES = {
    "echo": (Echo, echo_pb2_grpc.add_EchoServiceServicer_to_server),
    "ping": (Ping, ping_pb2_grpc.add_PingServiceServicer_to_server),
    "chat": (Chat, chat_pb2_grpc.add_ChatServiceServicer_to_server),
}


async def serve(spec):
    server = aio.server(options=[option[:2] for option in SERVER_OPTIONS])
    service, add = SERVICES[spec["workload"]["name"]]
    add(service(), server)
    try:
        port = server.add_insecure_port(spec["address"])
    except RuntimeError as e:
        raise Refusal(f"listen on {spec['address']}: {e}") from e
    await server.start()
    host, _, _ = spec["address"].rpartition(":")
    ready(f"{host}:{port}", "server", SERVER_OPTIONS)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    on_input_end(lambda: loop.call_soon_threadsafe(ended.set))
    await ended.wait()
    emit("result", {"server": {}})  # what it cost is seen from outside
    leave(0)  # asyncio would wait for the handlers of clients that went silent


def on_input_end(then):
    def watch():
        while sys.stdin.buffer.read1(1024):
            pass
        then()

    threading.Thread(target=watch, name="input", daemon=True).start()


# --- What callers say.


class WrongAnswer(Exception):
    pass


class Filling:
    """Random bytes, whose last eight are new each time."""

    def __init__(self, size, seed):
        self.random = random.Random(seed)
        self.kept = self.random.randbytes(max(0, size - 8))
        self.fresh = min(size, 8)

    def next(self):
        return self.kept + self.random.randbytes(self.fresh)


class EchoCaller:
    def __init__(self, channel, filling):
        self.stub = echo_pb2_grpc.EchoServiceStub(channel)
        self.filling = filling
        self.id = 0

    def next(self):
        self.id += 1
        self.sent = echo_pb2.Payload(id=self.id, data=self.filling.next(), timestamp=time.time_ns())
        return self.sent

    async def ask(self, message):
        return await self.stub.Echo(message)

    def check(self, answer):
        if (answer.id, answer.data) != (self.sent.id, self.sent.data):
            raise WrongAnswer(f"echo: id {answer.id} with {len(answer.data)} bytes is no answer to id {self.sent.id}")


class PingCaller:
    def __init__(self, channel, filling):
        self.stub = ping_pb2_grpc.PingServiceStub(channel)

    def next(self):
        return ping_pb2.PingRequest()

    async def ask(self, message):
        return await self.stub.Ping(message)

    def check(self, answer):
        if answer.ByteSize():
            raise WrongAnswer("ping: the answer is not empty")


class ChatCaller:
    """Keeps a stream open. After a failure the next message opens a new one."""

    def __init__(self, channel, filling):
        self.stub = chat_pb2_grpc.ChatServiceStub(channel)
        self.filling = filling
        self.number = 0
        self.stream = None

    def next(self):
        self.number += 1
        self.sent = chat_pb2.Message(number=self.number, data=self.filling.next())
        return self.sent

    async def ask(self, message):
        stream, self.stream = self.stream or self.stub.Chat(), None
        try:
            try:
                await stream.write(message)
            except asyncio.InvalidStateError as e:  # the stream is over
                raise aio.AioRpcError(await stream.code(), None, None, await stream.details()) from e
            answer = await stream.read()
            if answer is aio.EOF:
                raise aio.AioRpcError(
                    grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "chat: the server ended the stream")
        except BaseException:
            stream.cancel()
            raise
        self.stream = stream
        return answer

    def check(self, answer):
        if (answer.number, answer.data) != (self.sent.number, self.sent.data):
            raise WrongAnswer(f"chat: message {answer.number} is no answer to message {self.sent.number}")


CALLERS = {"echo": EchoCaller, "ping": PingCaller, "chat": ChatCaller}


# --- Failures.

# Words of C-core, and what the call met.
PHRASES = [
    ("Connection refused", "refused"),
    ("Connection reset", "reset"),
    ("GOAWAY", "goaway"),
    ("keepalive watchdog timeout", "silent"),
    ("ping timeout", "silent"),
    ("Socket closed", "closed"),
    ("Broken pipe", "reset"),
    ("REFUSED_STREAM", "stream-refused"),
    ("RST_STREAM", "stream-reset"),
]


def code_of(status):
    """A code as Go spells it: DEADLINE_EXCEEDED is DeadlineExceeded."""
    if status == grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in status.name.split("_"))


def class_of(status, details):
    for phrase, found in PHRASES:
        if phrase in (details or ""):
            return found
    by_code = {grpc.StatusCode.CANCELLED: "cancelled", grpc.StatusCode.DEADLINE_EXCEEDED: "deadline"}
    return by_code.get(status, "application")


class Failures:
    def __init__(self):
        self.kinds = {}

    def add(self, error):
        """Returns the number of the failure's kind, from 1."""
        if isinstance(error, WrongAnswer):
            kind = ("wrong-answer", "WrongAnswer")
        elif isinstance(error, asyncio.CancelledError):
            kind, error = ("cancelled", "Canceled"), "the drain time is over"
        else:
            kind = (class_of(error.code(), error.details()), code_of(error.code()))
            error = f"{code_of(error.code())}: {error.details()}"
        known = self.kinds.setdefault(kind, (len(self.kinds) + 1, str(error)))
        return known[0]

    def result(self):
        return [{"class": c, "code": code, "example": example} for (c, code), (_, example) in self.kinds.items()]


# --- Connections.


class Sockets:
    """The kernel's word on this process's connections to the server. It is asked often: C-core
    does not tell what it opens."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self.seen = {}  # a socket's inode: when it was first seen
        self.open = 0

    def look(self):
        remotes = {f"{a}:{self.port:04X}" for a in kernel_addresses(self.host)}
        own = own_sockets()
        established = set()
        for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
            try:
                lines = Path(table).read_text().splitlines()[1:]
            except FileNotFoundError:  # a kernel without IPv6
                continue
            for line in lines:
                # 0: LOCAL:PORT REMOTE:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …
                part = line.split()
                if part[2] in remotes and part[3] == "01" and part[9] in own:  # 01: TCP_ESTABLISHED
                    established.add(part[9])
        now = time.monotonic_ns()
        for inode in established:
            self.seen.setdefault(inode, now)
        self.open = len(established)


def own_sockets():
    found = set()
    for descriptor in glob.glob("/proc/self/fd/*"):
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:["):-1])
    return found


def kernel_addresses(host):
    """The host's addresses as the kernel prints them: words of four bytes, each as a number."""
    for family, _, _, _, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
        packed = socket.inet_pton(family, address[0])
        printed = "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))
        yield printed
        if family == socket.AF_INET:
            yield "0000000000000000FFFF0000" + printed  # in an IPv6 socket (RFC 4291, 2.5.5.2)


class Connections:
    """A client's channels, each with one connection; if it is lost, the next call opens another."""

    def __init__(self, client, address):
        self.mode = client["connection"]
        self.address = address
        self.want = connections_of(client)
        self.sockets = Sockets(address)
        self.failed = []  # when attempts to connect failed
        self.channels = []
        self.watches = []

    async def open(self):
        for _ in range(self.want):
            channel = aio.insecure_channel(self.address, options=[option[:2] for option in CLIENT_OPTIONS])
            self.channels.append(channel)
            try:
                await asyncio.wait_for(self.connect(channel), CONNECT)
            except asyncio.TimeoutError as e:
                raise Refusal(f"connect to {self.address}: no HTTP/2 server answers within {CONNECT} s") from e
            self.watches.append(asyncio.create_task(self.watch(channel)))
        self.sockets.look()

    async def connect(self, channel):
        state = channel.get_state(try_to_connect=True)
        while state != grpc.ChannelConnectivity.READY:
            if state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                raise Refusal(f"connect to {self.address}: {self.why()}")
            await channel.wait_for_state_change(state)
            state = channel.get_state(try_to_connect=True)

    async def watch(self, channel):
        state = channel.get_state()
        while True:
            await channel.wait_for_state_change(state)
            state = channel.get_state()
            if state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                self.failed.append(time.monotonic_ns())

    def why(self):
        """The kernel's words, which a channel's state does not have."""
        try:
            socket.create_connection((self.sockets.host, self.sockets.port), timeout=1).close()
        except OSError as e:
            return str(e)
        return "it is no HTTP/2 server"

    def result(self, begin, end):
        self.sockets.look()
        opened = list(self.sockets.seen.values())
        during = sum(begin <= at < end for at in opened)
        return {
            "mode": self.mode, "want": self.want, "during": during,
            "total": {"opened": len(opened), "failed": len(self.failed), "open": self.sockets.open},
            "window": {
                "opened": during, "failed": sum(begin <= at < end for at in self.failed), "open": self.sockets.open},
        }


# --- The client.


@dataclass
class Window:
    """The measured window. Callers take the time of a call first, and look at it then."""

    begin: float = float("inf")
    end: float = float("inf")  # of a load with a time
    over: bool = False
    unfinished: int = 0  # callers with calls in the window yet to end
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def finish(self):
        """A caller has no call in the window any more."""
        self.unfinished -= 1
        if not self.unfinished:
            self.finished.set()


@dataclass
class Client:
    spec: dict
    window: Window = field(default_factory=Window)
    failures: Failures = field(default_factory=Failures)
    calls: list = field(default_factory=list)  # as the calls file has them
    last_ended: int = 0
    before: int = 0  # calls before the window
    told: bool = False  # the result

    def __post_init__(self):
        self.part = self.spec["client"]
        self.load = self.part["load"]
        self.timed = self.load.get("requests_per_client", 0) <= 0
        self.connections = Connections(self.part, self.spec["address"])

    async def measure(self):
        # Before the result an end of the input is a failure; behind it, it is awaited, since
        # what this costs is read from outside meanwhile.
        on_input_end(lambda: os._exit(0 if self.told else 1))
        await self.connections.open()
        ready(self.spec["address"], "client", CLIENT_OPTIONS)
        callers = await self.warm_up()
        await self.wait()
        window = self.window
        window.over = True
        await self.end(callers)
        end = window.end if self.timed else self.last_ended
        connections = self.connections.result(window.begin, end)
        Path(self.part["calls_file"]).write_bytes(b"".join(self.calls))
        self.told = True
        emit("result", {"client": {
            "begin_ns": window.begin, "end_ns": end, "calls_written": len(self.calls),
            "failures": self.failures.result(), "connections": connections,
        }})
        await asyncio.Event().wait()

    def start(self):
        clients = self.part["clients"]
        self.window.unfinished = clients
        size = self.spec["workload"].get("request_bytes", 0)
        new = CALLERS[self.spec["workload"]["name"]]
        channels = self.connections.channels
        seed = self.part.get("seed", 0)
        return [
            asyncio.create_task(self.call(i, new(channels[i % len(channels)], Filling(size, f"{seed} {i}"))))
            for i in range(clients)
        ]

    def open(self, at):
        self.window.begin = at
        if self.timed:
            self.window.end = at + self.load["duration_ns"]

    async def warm_up(self):
        """Starts the callers, and opens the window."""
        at_most = self.load.get("warm_up_at_most_ns", 0) / 1e9
        if at_most <= 0:
            self.open(time.monotonic_ns())
            return self.start()
        callers = self.start()
        until = time.monotonic() + min(max(WARM_UP, self.load.get("warm_up_at_least_ns", 0) / 1e9), at_most)
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, PROGRESS))
            self.progress(True, 0)
        self.before = len(self.calls)
        self.open(time.monotonic_ns() + int(NOTICE * 1e9))
        return callers

    async def wait(self):
        """Waits for the calls in the window, at most for the drain time."""
        drain, window = self.load.get("drain_ns", 0), self.window
        while not window.finished.is_set():
            await asyncio.wait([ended := asyncio.ensure_future(window.finished.wait())], timeout=PROGRESS)
            ended.cancel()
            now = time.monotonic_ns()
            self.progress(False, self.fraction(now))
            since = window.end if self.timed else max(self.last_ended, window.begin)
            if drain > 0 and now - since > drain:
                return

    async def end(self, callers):
        """Ends the callers; with calls in the window still in flight those have failed."""
        if self.window.finished.is_set():
            await asyncio.wait(callers, timeout=END)
        for caller in callers:
            caller.cancel()
        for ended in await asyncio.gather(*callers, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def fraction(self, now):
        if self.timed:
            part = (now - self.window.begin) / self.load["duration_ns"]
        else:
            wanted = self.load["requests_per_client"] * self.part["clients"] + self.load.get("extra_requests", 0)
            part = (len(self.calls) - self.before) / wanted
        return min(1, max(0, part))

    def progress(self, warming, fraction):
        self.connections.sockets.look()
        emit("progress", {"warming": warming, "done": len(self.calls), "fraction": fraction})

    async def call(self, index, caller):
        """One caller, with one call in flight."""
        window = self.window
        left = self.load.get("requests_per_client", 0) + (index < self.load.get("extra_requests", 0))
        finished = False
        while not window.over:
            message = caller.next()
            sent = time.monotonic_ns()
            if self.timed and not finished and sent >= window.end:
                finished = True  # and goes on, so that the others' last calls are under the same load
                window.finish()
            if not self.timed and sent >= window.begin:
                if left == 0:
                    window.finish()
                    return
                left -= 1
            failure, ended = 0, 0
            try:
                answer = await caller.ask(message)
                ended = time.monotonic_ns()
                caller.check(answer)
            except (WrongAnswer, aio.AioRpcError, asyncio.CancelledError) as e:
                ended = ended or time.monotonic_ns()
                failure = self.failures.add(e)
            self.last_ended = max(self.last_ended, ended)
            self.calls.append(struct.pack("<qqqii", sent, sent, ended, index, failure))


def main():
    try:
        spec = parse(sys.stdin.buffer.readline())
        if spec["role"] == "capabilities":
            emit("capabilities", CAPABILITIES)
        elif spec["role"] == "server":
            asyncio.run(serve(spec))
        else:
            asyncio.run(Client(spec).measure())
    except Refusal as e:
        emit("error", {"message": str(e)})
        leave(1)
    except Exception as e:
        emit("error", {"message": f"the Python peer stopped by itself: {type(e).__name__}: {e}"})
        leave(1)
    leave(0)


def leave(code):
    """Ends, whatever threads do."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
