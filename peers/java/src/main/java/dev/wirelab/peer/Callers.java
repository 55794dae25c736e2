package dev.wirelab.peer;

import com.google.protobuf.MessageLite;
import dev.wirelab.peer.Dialogue.Filling;
import io.grpc.Channel;
import wirelab.chat.v1.ChatServiceGrpc;
import wirelab.echo.v1.EchoServiceGrpc;
import wirelab.ping.v1.PingServiceGrpc;

/** Makes callers: of each workload, and of each way to call. */
final class Callers {
    private final Spec spec;
    private final Caller.Common common;

    Callers(Spec spec, Caller.Common common) {
        this.spec = spec;
        this.common = common;
    }

    Caller<?, ?> make(int index, Channel channel) {
        boolean sync = spec.api() == Spec.Api.SYNC;
        // Of neighbouring seeds and callers no two have the same.
        Filling filling = new Filling(spec.dataBytes(), spec.clients().seed() * 0x9E3779B97F4A7C15L + index);
        switch (spec.workload()) {
            case ECHO -> {
                Dialogue.Echo echo = new Dialogue.Echo(filling);
                return sync
                        ? sync(index, echo, EchoServiceGrpc.newBlockingStub(channel)::echo)
                        : async(index, echo, EchoServiceGrpc.newStub(channel)::echo);
            }
            case PING -> {
                Dialogue.Ping ping = new Dialogue.Ping();
                return sync
                        ? sync(index, ping, PingServiceGrpc.newBlockingStub(channel)::ping)
                        : async(index, ping, PingServiceGrpc.newStub(channel)::ping);
            }
            case CHAT -> {
                Dialogue.Chat chat = new Dialogue.Chat(filling);
                return sync
                        ? sync(index, chat, new SyncCaller.Stream<>(ChatServiceGrpc.newBlockingV2Stub(channel)::chat))
                        : new AsyncCaller.Stream<>(common, index, chat, ChatServiceGrpc.newStub(channel)::chat);
            }
        }
        throw new AssertionError(spec.workload());
    }

    private <Q extends MessageLite, A> Caller<Q, A> sync(int index, Dialogue<Q, A> dialogue, SyncCaller.Ask<Q, A> ask) {
        return new SyncCaller<>(common, index, dialogue, ask);
    }

    private <Q extends MessageLite, A> Caller<Q, A> async(
            int index, Dialogue<Q, A> dialogue, AsyncCaller.Unary.Method<Q, A> method) {
        return new AsyncCaller.Unary<>(common, index, dialogue, method);
    }
}
