package dev.wirelab.peer;

import io.grpc.Attributes;
import io.grpc.ClientTransportFilter;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A client's connections. A channel to one address has one; if it is lost, the next call opens another. */
final class Connections {
    private static final int CONNECT_SECONDS = 10;

    private final Spec spec;
    private final InetSocketAddress server;
    private final List<ManagedChannel> channels = new ArrayList<>();
    private final List<Long> opened = new ArrayList<>(); // when; guarded by itself
    private final List<Long> failed = new ArrayList<>(); // likewise

    private Connections(Spec spec) throws Refusal {
        this.spec = spec;
        server = spec.socketAddress();
    }

    /** Opens all of them, and waits until they can carry calls. */
    static Connections open(Spec spec) throws InterruptedException, Refusal {
        Connections all = new Connections(spec);
        for (int i = 0; i < spec.clients().connections(); i++) {
            all.channels.add(all.connect());
        }
        return all;
    }

    ManagedChannel of(int caller) {
        return channels.get(caller % channels.size());
    }

    /** What was opened, for the result of a window, and what the kernel has open now. */
    Map<String, Object> result(long begin, long end) throws IOException {
        int open = Sockets.established(server);
        int during = between(opened, begin, end);
        return Map.of(
                "mode", spec.clients().connection(),
                "want", channels.size(),
                "total", Map.of(
                        "opened", between(opened, 0, Long.MAX_VALUE),
                        "failed", between(failed, 0, Long.MAX_VALUE),
                        "open", open),
                "during", during,
                "window", Map.of("opened", during, "failed", between(failed, begin, end), "open", open));
    }

    static List<Events.Setting> settings() {
        return List.of(new Events.Setting(
                "client", "maxInboundMessageSize", "16 MiB", "4 MiB", "wirelab's largest messages"));
    }

    private ManagedChannel connect() throws InterruptedException, Refusal {
        ManagedChannel channel = NettyChannelBuilder.forAddress(server)
                .usePlaintext()
                .maxInboundMessageSize(Spec.MAX_MESSAGE_BYTES)
                .addTransportFilter(new ClientTransportFilter() {
                    @Override
                    public Attributes transportReady(Attributes attributes) {
                        note(opened);
                        return attributes;
                    }
                })
                .build();
        CompletableFuture<Boolean> ready = new CompletableFuture<>();
        watch(channel, ready);
        try {
            if (!ready.get(CONNECT_SECONDS, TimeUnit.SECONDS)) {
                throw new Refusal("connect to " + spec.address() + ": " + why());
            }
        } catch (ExecutionException | TimeoutException e) {
            throw new Refusal("connect to " + spec.address() + ": no HTTP/2 server answers within "
                    + CONNECT_SECONDS + " s");
        }
        return channel;
    }

    /** Watches a channel for good: each of its failures is an attempt to connect. */
    private void watch(ManagedChannel channel, CompletableFuture<Boolean> ready) {
        ConnectivityState state = channel.getState(!ready.isDone());
        if (state == ConnectivityState.READY) {
            ready.complete(true);
        } else if (state == ConnectivityState.TRANSIENT_FAILURE) {
            note(failed);
            ready.complete(false);
        }
        channel.notifyWhenStateChanged(state, () -> watch(channel, ready));
    }

    /** The kernel's words, which a channel's state does not have. */
    private String why() {
        try (Socket socket = new Socket()) {
            socket.connect(server, 1000);
            return "it is no HTTP/2 server";
        } catch (IOException e) {
            return e.getMessage();
        }
    }

    private static void note(List<Long> instants) {
        synchronized (instants) {
            instants.add(Clock.now());
        }
    }

    private static int between(List<Long> instants, long begin, long end) {
        synchronized (instants) {
            return (int) instants.stream().filter(at -> begin <= at && at < end).count();
        }
    }
}
