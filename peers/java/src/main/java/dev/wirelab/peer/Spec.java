package dev.wirelab.peer;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.util.List;

/** What this process is to do, checked. */
record Spec(
        Role role, Workload workload, int dataBytes, String address, Api api, Clients clients) {
    static final int CONTRACT = 1;
    static final String STACK = "grpc";
    static final String API_OPTION = "api";
    static final List<String> CONNECTIONS = List.of("shared", "per-worker", "pool");

    // The largest message of a server and of a client.
    static final int MAX_MESSAGE_BYTES = 16 << 20;

    enum Role {
        SERVER,
        CLIENT,
        CAPABILITIES
    }

    enum Workload {
        ECHO,
        PING,
        CHAT
    }

    /** How a client calls: from a thread a caller that waits, or from the library's callbacks. */
    enum Api {
        SYNC,
        ASYNC
    }

    /** A client's part. */
    record Clients(int count, String connection, int connections, long seed, String callsFile, Load load) {}

    /** A closed loop. */
    record Load(
            String model,
            long requestsPerClient,
            long extraRequests,
            long durationNs,
            long warmUpAtLeastNs,
            long warmUpAtMostNs,
            long drainNs) {}

    static Spec parse(String line) throws Refusal {
        Gson gson = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES).create();
        Line read;
        try {
            read = gson.fromJson(line, Line.class);
        } catch (JsonParseException e) {
            throw new Refusal("worker spec: " + e.getMessage());
        }
        if (read == null || read.contract != CONTRACT) {
            throw new Refusal("worker spec: contract version " + (read == null ? 0 : read.contract)
                    + ": this worker implements version " + CONTRACT);
        }
        return read.check();
    }

    InetSocketAddress socketAddress() throws Refusal {
        int colon = address.lastIndexOf(':');
        try {
            String host = address.substring(0, colon).replaceAll("^\\[|]$", "");
            InetSocketAddress found = new InetSocketAddress(host, Integer.parseInt(address.substring(colon + 1)));
            if (!found.isUnresolved()) {
                return found;
            }
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            // below
        }
        throw new Refusal("worker spec: address \"" + address + "\": want HOST:PORT of this machine");
    }

    /** The spec as it is written. What is absent is zero. */
    private static final class Line {
        int contract;
        String role = "";
        String stack = "";
        String address = "";
        WorkloadLine workload = new WorkloadLine();
        ClientLine client;

        static final class WorkloadLine {
            String name = "";
            int requestBytes;
            int responseBytes;
        }

        static final class ClientLine {
            int clients;
            String connection = "";
            int sources;
            BigInteger seed = BigInteger.ZERO; // unsigned
            String callsFile = "";
            Load load;
        }

        Spec check() throws Refusal {
            Role part = switch (role) {
                case "server" -> Role.SERVER;
                case "client" -> Role.CLIENT;
                case "capabilities" -> Role.CAPABILITIES;
                default -> throw new Refusal(
                        "worker spec: role \"" + role + "\": want server, client or capabilities");
            };
            if (part == Role.CAPABILITIES) {
                return new Spec(part, null, 0, null, null, null);
            }
            Workload service = switch (workload.name) {
                case "echo" -> Workload.ECHO;
                case "ping" -> Workload.PING;
                case "chat" -> Workload.CHAT;
                default -> throw new Refusal("workload \"" + workload.name
                        + "\": this peer has echo, ping and chat, without options");
            };
            if (workload.requestBytes != workload.responseBytes) {
                throw new Refusal("sizes: this peer answers with what came, not with another size");
            }
            if (workload.requestBytes < 0 || workload.requestBytes > MAX_MESSAGE_BYTES) {
                throw new Refusal("sizes: " + workload.requestBytes + " bytes: want 0 to " + MAX_MESSAGE_BYTES);
            }
            return new Spec(
                    part, service, workload.requestBytes, address, api(part), part == Role.CLIENT ? clients() : null);
        }

        private Api api(Role part) throws Refusal {
            String[] variant = stack.split(":", 2);
            if (!variant[0].equals(STACK)) {
                throw new Refusal("stack \"" + variant[0] + "\": this peer has " + STACK);
            }
            Api chosen = Api.SYNC;
            for (String option : variant.length == 1 ? new String[0] : variant[1].split(",")) {
                chosen = switch (part == Role.CLIENT ? option : "") {
                    case API_OPTION + "=sync" -> Api.SYNC;
                    case API_OPTION + "=async" -> Api.ASYNC;
                    default -> throw new Refusal("variant " + stack + ": the Java peer does not have " + option
                            + " as a " + part.name().toLowerCase() + "; a client has api=sync and api=async");
                };
            }
            return chosen;
        }

        private Clients clients() throws Refusal {
            if (client == null || client.clients < 1) {
                throw new Refusal("worker spec: role client needs the part \"client\" with at least 1 of \"clients\"");
            }
            if (client.load == null || !"closed".equals(client.load.model())) {
                throw new Refusal("load \"" + (client.load == null ? "" : client.load.model())
                        + "\": the Java peer has closed");
            }
            if (client.load.requestsPerClient() <= 0 && client.load.durationNs() <= 0) {
                throw new Refusal("load closed: want requests_per_client or duration_ns");
            }
            if (client.callsFile.isEmpty()) {
                throw new Refusal("worker spec: calls_file is empty: the Java peer writes down its calls, and counts nothing itself");
            }
            if (client.sources > 1) {
                throw new Refusal("sources " + client.sources + ": the Java peer dials from one address");
            }
            return new Clients(
                    client.clients, client.connection, connections(), client.seed.longValue(), client.callsFile, client.load);
        }

        private int connections() throws Refusal {
            String mode = client.connection;
            if (mode.equals("shared")) {
                return 1;
            }
            if (mode.equals("per-worker") || mode.equals("pool")) {
                return client.clients;
            }
            if (mode.matches("pool:[1-9][0-9]{0,8}")) {
                return Integer.parseInt(mode.substring("pool:".length()));
            }
            throw new Refusal("connection \"" + mode + "\": the Java peer has shared, per-worker, pool and pool:N");
        }
    }
}
