// Command client runs the client of gRPC's interoperability tests with fastgrpc. It has the flags
// and test cases of google.golang.org/grpc/interop/client. The comment of package interop lists the
// cases that it lacks.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	cases "google.golang.org/grpc/interop"
	"google.golang.org/grpc/testdata"

	"wirelab.dev/rpc/fastgrpc"
	"wirelab.dev/rpc/fastgrpc/interop"
)

var (
	useTLS         = flag.Bool("use_tls", false, "use TLS; otherwise connections are not encrypted")
	testCA         = flag.Bool("use_test_ca", false, "with -use_tls, trust only the test CA in -ca_file instead of the system's CAs")
	caFile         = flag.String("ca_file", testdata.Path("ca.pem"), "the file with the certificate of the test CA")
	serverHost     = flag.String("server_host", "localhost", "the host name of the server")
	serverPort     = flag.Int("server_port", 10000, "the port of the server; with 0, -server_host includes the port")
	serverName     = flag.String("server_host_override", "", "with -use_tls, the name that the server's certificate must contain; by default -server_host")
	testCase       = flag.String("test_case", "large_unary", "the test case to run: rpc_soak, channel_soak or one of "+strings.Join(interop.CaseNames(), ", "))
	soakIterations = flag.Int("soak_iterations", 10, "the number of calls in a soak test")
	soakFailures   = flag.Int("soak_max_failures", 0, "the number of calls that may fail in a soak test")
	soakLatency    = flag.Int("soak_per_iteration_max_acceptable_latency_ms", 1000, "the longest time, in milliseconds, that a call of a soak test may take")
	soakTimeout    = flag.Int("soak_overall_timeout_seconds", 10, "the longest time, in seconds, that a soak test may take")
	soakPause      = flag.Int("soak_min_time_ms_between_rpcs", 0, "the shortest time, in milliseconds, between two calls of a soak test")
	soakRequest    = flag.Int("soak_request_size", 271828, "the request size, in bytes, of each call in a soak test")
	soakResponse   = flag.Int("soak_response_size", 314159, "the response size, in bytes, of each call in a soak test")
	soakThreads    = flag.Int("soak_num_threads", 1, "the number of concurrent callers in a soak test")
)

func main() {
	var pairs []string
	flag.Func("additional_metadata", "metadata to add to each call: key:value pairs, separated by semicolons", func(text string) error {
		for pair := range strings.SplitSeq(text, ";") {
			name, value, ok := strings.Cut(pair, ":")
			if !ok {
				return fmt.Errorf("%q has no colon, want a pair of the form key:value", pair)
			}
			pairs = append(pairs, name, value)
		}
		return nil
	})
	flag.Parse()
	if err := run(context.Background(), pairs); err != nil {
		log.Fatalf("test case %s: %v", *testCase, err)
	}
}

func run(ctx context.Context, pairs []string) error {
	creds, err := transportCredentials()
	if err != nil {
		return err
	}
	address := *serverHost
	if *serverPort != 0 {
		address = net.JoinHostPort(*serverHost, strconv.Itoa(*serverPort))
	}
	connect := func() (*grpc.ClientConn, func(), error) {
		cc, err := fastgrpc.NewClient(address, fastgrpc.WithTransportCredentials(creds))
		if err != nil {
			return nil, nil, err
		}
		channel, err := interop.NewChannel(cc, pairs...)
		return channel, func() { _ = cc.Close() }, err
	}
	channel, closeChannel, err := connect()
	if err != nil {
		return err
	}
	defer closeChannel()
	switch test := interop.Cases[*testCase]; {
	case test != nil:
		test(ctx, channel)
	case *testCase == "rpc_soak":
		runSoakTest(ctx, address, func() (*grpc.ClientConn, func()) { return channel, func() {} })
	case *testCase == "channel_soak":
		runSoakTest(ctx, address, func() (*grpc.ClientConn, func()) {
			channel, closeChannel, err := connect()
			if err != nil {
				log.Fatal(err)
			}
			return channel, closeChannel
		})
	default:
		return fmt.Errorf("there is no such test case: -help lists all test cases")
	}
	return nil
}

func transportCredentials() (credentials.TransportCredentials, error) {
	switch {
	case !*useTLS:
		return insecure.NewCredentials(), nil
	case *testCA:
		return credentials.NewClientTLSFromFile(*caFile, *serverName)
	}
	return credentials.NewTLS(&tls.Config{ServerName: *serverName}), nil
}

func runSoakTest(ctx context.Context, address string, channel func() (*grpc.ClientConn, func())) {
	timeout := time.Duration(*soakTimeout) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cases.DoSoakTest(ctx, cases.SoakTestConfig{
		RequestSize:                      *soakRequest,
		ResponseSize:                     *soakResponse,
		PerIterationMaxAcceptableLatency: time.Duration(*soakLatency) * time.Millisecond,
		MinTimeBetweenRPCs:               time.Duration(*soakPause) * time.Millisecond,
		OverallTimeout:                   timeout,
		ServerAddr:                       address,
		NumWorkers:                       *soakThreads,
		Iterations:                       *soakIterations,
		MaxFailures:                      *soakFailures,
		ChannelForTest:                   channel,
	})
}
