// Command client runs the interoperability test's client with fastgrpc. It has the flags
// and test cases of grpc-go's google.golang.org/grpc/interop/client, except for the cases that
// package interop leaves out.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
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
	extraMetadata  = flag.String("additional_metadata", "", "Additional metadata for each call: key:value pairs separated by semicolons")
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
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatalf("%s: %v", *testCase, err)
	}
}

func run(ctx context.Context) error {
	pairs, err := metadataPairs()
	if err != nil {
		return err
	}
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

func metadataPairs() ([]string, error) {
	if *extraMetadata == "" {
		return nil, nil
	}
	var pairs []string
	for pair := range strings.SplitSeq(*extraMetadata, ";") {
		name, value, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, fmt.Errorf("-additional_metadata: %q has no colon, want key:value", pair)
		}
		pairs = append(pairs, name, value)
	}
	return pairs, nil
}

func transportCredentials() (credentials.TransportCredentials, error) {
	if !*useTLS {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{ServerName: *serverName}
	if *testCA {
		pem, err := os.ReadFile(*caFile)
		if err != nil {
			return nil, fmt.Errorf("-ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-ca_file: no PEM certificate in %s", *caFile)
		}
	}
	return credentials.NewTLS(config), nil
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
