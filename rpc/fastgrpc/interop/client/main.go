// Command client runs the interoperability test's client with fastgrpc. It has the flags
// and test cases of grpc-go's google.golang.org/grpc/interop/client, except for the cases that
// package interop leaves out.
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
	useTLS         = flag.Bool("use_tls", false, "Connection uses TLS if true")
	testCA         = flag.Bool("use_test_ca", false, "Whether to replace platform root CAs with the test CA")
	caFile         = flag.String("ca_file", testdata.Path("ca.pem"), "The file with the test CA's certificate")
	serverHost     = flag.String("server_host", "localhost", "The server host name")
	serverPort     = flag.Int("server_port", 10000, "The server port number")
	serverName     = flag.String("server_host_override", "", "The server name that the server's certificate must have")
	testCase       = flag.String("test_case", "large_unary", "The test case: rpc_soak, channel_soak or one of "+strings.Join(interop.Names(), ", "))
	soakIterations = flag.Int("soak_iterations", 10, "The number of calls of a soak test")
	soakFailures   = flag.Int("soak_max_failures", 0, "The number of calls that may fail")
	soakLatency    = flag.Int("soak_per_iteration_max_acceptable_latency_ms", 1000, "The milliseconds that a call may take")
	soakTimeout    = flag.Int("soak_overall_timeout_seconds", 10, "The seconds that a soak test may take")
	soakPause      = flag.Int("soak_min_time_ms_between_rpcs", 0, "The least milliseconds between calls")
	soakRequest    = flag.Int("soak_request_size", 271828, "The request size of a soak call")
	soakResponse   = flag.Int("soak_response_size", 314159, "The response size of a soak call")
	soakThreads    = flag.Int("soak_num_threads", 1, "The number of concurrent callers of a soak test")
)

func main() {
	var pairs []string
	flag.Func("additional_metadata", "Additional metadata for each call: key:value pairs separated by semicolons", func(text string) error {
		for pair := range strings.SplitSeq(text, ";") {
			name, value, ok := strings.Cut(pair, ":")
			if !ok {
				return fmt.Errorf("%q has no colon, want key:value", pair)
			}
			pairs = append(pairs, name, value)
		}
		return nil
	})
	flag.Parse()
	if err := run(context.Background(), pairs); err != nil {
		log.Fatalf("%s: %v", *testCase, err)
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
		channel, err := interop.Channel(cc, pairs...)
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
		soak(ctx, address, func() (*grpc.ClientConn, func()) { return channel, func() {} })
	case *testCase == "channel_soak":
		soak(ctx, address, func() (*grpc.ClientConn, func()) {
			channel, closeChannel, err := connect()
			if err != nil {
				log.Fatal(err)
			}
			return channel, closeChannel
		})
	default:
		return fmt.Errorf("unknown case, see -help for all")
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

func soak(ctx context.Context, address string, channel func() (*grpc.ClientConn, func())) {
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
