import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/** Service is a small web service with planted faults: Service.java ADDRESS JOB FAULT, where FAULT is 0 or 1. */
public class Service {
    private static final Object lock = new Object();

    public static void main(String[] arguments) throws Exception {
        String[] address = arguments[0].split(":");
        String job = arguments[1];
        boolean fault = arguments[2].equals("1");
        Runnable work = switch (job) {
            case "account" -> () -> account(fault);
            case "parse" -> () -> {
                for (int i = 0; i < 100; i++) {
                    parse(200, fault ? "x" : "1");
                }
            };
            case "workers" -> Service::query;
            case "group" -> () -> group(fault);
            default -> throw new IllegalArgumentException("no job is named " + job);
        };
        // The job workers has as many threads as requests, or two.
        boolean few = job.equals("workers") && fault;
        Executor threads = few ? Executors.newFixedThreadPool(2) : Executors.newCachedThreadPool();
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 128);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            work.run();
            byte[] text = "booked\n".getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }

    /** account queries under a lock of all requests, or without. */
    private static void account(boolean fault) {
        if (fault) {
            synchronized (lock) {
                query();
            }
        } else {
            query();
        }
    }

    /** parse reads a number at a depth of some calls; for what is no number, it throws and catches an exception. */
    private static int parse(int depth, String text) {
        if (depth > 0) {
            return parse(depth - 1, text) + 1;
        }
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    /** query waits for a data source. */
    private static void query() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A Place is a key of a map. The hash codes of all places differ, or are the same. */
    private record Place(int x, int y, boolean same) {
        @Override
        public int hashCode() {
            return same ? 31 : x * 31 + y;
        }
    }

    /** group counts 300 places in a map. */
    private static void group(boolean fault) {
        Map<Place, Integer> counts = new HashMap<>();
        for (int i = 0; i < 300; i++) {
            counts.merge(new Place(i, 7, fault), 1, Integer::sum);
        }
        if (counts.size() != 300) {
            throw new IllegalStateException("a place is missing");
        }
    }
}
