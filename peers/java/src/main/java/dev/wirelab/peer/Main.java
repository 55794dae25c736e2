package dev.wirelab.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * A worker of wirelab in Java: server and client of the workloads echo, ping and chat over
 * grpc-java, written from docs/worker-contract.md.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        int code = 0;
        try {
            run(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        } catch (Refusal | IOException e) {
            Events.error(e.getMessage());
            code = 1;
        } catch (InterruptedException | RuntimeException e) {
            e.printStackTrace();
            Events.error("the Java peer stopped by itself: " + e);
            code = 1;
        }
        System.exit(code); // whatever its threads do
    }

    private static void run(BufferedReader input) throws IOException, InterruptedException, Refusal {
        String line = input.readLine();
        if (line == null) {
            throw new Refusal("read the spec from standard input: it ended");
        }
        Spec spec = Spec.parse(line);
        switch (spec.role()) {
            case CAPABILITIES -> Events.capabilities();
            case SERVER -> serve(spec, input);
            case CLIENT -> {
                Thread watch = endWith(input);
                new Client(spec).measure();
                watch.join(); // meanwhile what it cost is read from outside
            }
        }
    }

    private static void serve(Spec spec, BufferedReader input) throws IOException, Refusal {
        Server server = Server.listen(spec);
        Events.ready(server.address(), Server.settings());
        skip(input); // its end tells us to stop
        Events.served();
    }

    /** Ends a client whose input ends. Before its result that is a failure. */
    private static Thread endWith(BufferedReader input) {
        Thread watch = new Thread(() -> {
            try {
                skip(input);
            } catch (IOException e) {
                System.err.println("read standard input: " + e.getMessage());
            }
            Runtime.getRuntime().halt(Events.hasMeasured() ? 0 : 1);
        }, "input");
        watch.setDaemon(true);
        watch.start();
        return watch;
    }

    private static void skip(BufferedReader input) throws IOException {
        char[] into = new char[1024];
        while (input.read(into) >= 0) {}
    }
}
