// Command client runs the interoperability test's client with fastgrpc. Its flags and
// test cases are those of grpc-go's google.golang.org/grpc/interop/client. It returns an
// error for those that need Google Cloud credentials.
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/testdata"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/fastgrpc/interop"
)

var (
	caFile         = flag.String("ca_file", "", "The file containing the CA root cert file")
	useTLS         = flag.Bool("use_tls", false, "Connection uses TLS if true")
	testCA         = flag.Bool("use_test_ca", false, "Whether to replace platform root CAs with test CA as the CA root")
	serverHost     = flag.String("server_host", "localhost", "The server host name")
	serverPort     = flag.Int("server_port", 10000, "The server port number")
	serverName     = flag.String("server_host_override", "", "The server name used to verify the hostname returned by TLS handshake")
	extraMetadata  = flag.String("additional_metadata", "", "Additional metadata to send in each request, as a semicolon-separated list of key:value pairs")
	testCase       = flag.String("test_case", "large_unary", "The test case: rpc_soak, channel_soak or one of "+strings.Join(interop.Names(), ", "))
	soakIterations = flag.Int("soak_iterations", 10, "The number of iterations of the soak tests")
	soakFailures   = flag.Int("soak_max_failures", 0, "The number of iterations that may fail")
	soakLatency    = flag.Int("soak_per_iteration_max_acceptable_latency_ms", 1000, "The milliseconds that an iteration may take")
	soakTimeout    = flag.Int("soak_overall_timeout_seconds", 10, "The seconds that a soak test may take")
	soakPause      = flag.Int("soak_min_time_ms_between_rpcs", 0, "The milliseconds between calls")
	soakRequest    = flag.Int("soak_request_size", 271828, "The request size of a soak call")
	soakResponse   = flag.Int("soak_response_size", 314159, "The response size of a soak call")
	soakThreads    = flag.Int("soak_num_threads", 1, "The number of concurrent callers of a soak test")
	serviceConfig  = flag.String("service_config_json", "", "The service config; only the one of the orca cases is supported")
)

// orcaBalancer is the balancing policy through which grpc-go's client gets load reports.
// This client reads them from the call.
const orcaBalancer = "test_backend_metrics_load_balancer"

// Flags and cases that need Google Cloud.
var (
	cloudFlags = []string{
		"use_alts", "custom_credentials_type", "alts_handshaker_service_address", "service_account_key_file",
		"oauth_scope", "default_service_account", "google_c2p_universe_domain",
	}
	cloudCases = []string{
		"compute_engine_creds", "service_account_creds", "jwt_token_creds", "per_rpc_creds", "oauth2_auth_token",
		"google_default_credentials", "compute_engine_channel_credentials",
	}
)

// defineCloudFlags defines the flags so that they accept only their default.
func defineCloudFlags() {
	for _, name := range cloudFlags {
		refuse := func(value string) error {
			if value == "" || value == "false" {
				return nil
			}
			return fmt.Errorf("needs Google Cloud credentials: %w", fastgrpc.ErrUnsupported)
		}
		if name == "use_alts" {
			flag.BoolFunc(name, "Not supported", refuse)
		} else {
			flag.Func(name, "Not supported", refuse)
		}
	}
}

func main() {
	defineCloudFlags()
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatalf("%s: %v", *testCase, err)
	}
}

func run(ctx context.Context) error {
	switch {
	case slices.Contains(cloudCases, *testCase):
		return fmt.Errorf("-test_case %s: Google Cloud credentials: %w", *testCase, fastgrpc.ErrUnsupported)
	case *serviceConfig != "" && !strings.Contains(*serviceConfig, orcaBalancer):
		return fmt.Errorf("-service_config_json: only a config with %s: %w", orcaBalancer, fastgrpc.ErrUnsupported)
	}
	opts, err := options()
	if err != nil {
		return err
	}
	address := *serverHost
	if *serverPort != 0 {
		address = net.JoinHostPort(*serverHost, strconv.Itoa(*serverPort))
	}
	connect := func() (*fastgrpc.Client, error) { return fastgrpc.NewClient(address, opts...) }
	cc, err := connect()
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	switch *testCase {
	case "rpc_soak":
		return soak(ctx, func(ctx context.Context) error {
			return interop.LargeUnary(ctx, cc, *soakRequest, *soakResponse)
		})
	case "channel_soak":
		return soak(ctx, func(ctx context.Context) error {
			own, err := connect()
			if err != nil {
				return err
			}
			defer func() { _ = own.Close() }()
			return interop.LargeUnary(ctx, own, *soakRequest, *soakResponse)
		})
	}
	test := interop.Cases[*testCase]
	if test == nil {
		return fmt.Errorf("-test_case %s: unknown case, want one of rpc_soak, channel_soak, %s", *testCase, strings.Join(interop.Names(), ", "))
	}
	return test(ctx, cc)
}

func options() ([]fastgrpc.ClientOption, error) {
	creds := insecure.NewCredentials()
	if *useTLS {
		config := &tls.Config{ServerName: *serverName}
		if *testCA {
			if *caFile == "" {
				*caFile = testdata.Path("ca.pem")
			}
			pem, err := os.ReadFile(*caFile)
			if err != nil {
				return nil, fmt.Errorf("-ca_file: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("-ca_file: no PEM certificate in %s", *caFile)
			}
		}
		creds = credentials.NewTLS(config)
	}
	opts := []fastgrpc.ClientOption{fastgrpc.WithTransportCredentials(creds)}
	if *extraMetadata == "" {
		return opts, nil
	}
	var pairs []string
	for _, p := range strings.Split(*extraMetadata, ";") {
		name, value, ok := strings.Cut(p, ":")
		if !ok {
			return nil, fmt.Errorf("-additional_metadata: %q has no colon, want key:value", p)
		}
		pairs = append(pairs, name, value)
	}
	return append(opts, withMetadata(pairs)...), nil
}

func withMetadata(pairs []string) []fastgrpc.ClientOption {
	return []fastgrpc.ClientOption{
		fastgrpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return next(metadata.AppendToOutgoingContext(ctx, pairs...), method, req, reply, cc, opts...)
		}),
		fastgrpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(metadata.AppendToOutgoingContext(ctx, pairs...), desc, cc, method, opts...)
		}),
	}
}

// soak repeats a call and counts the iterations that fail or take too long.
func soak(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*soakTimeout)*time.Second)
	defer cancel()
	var mu sync.Mutex
	failures, done := 0, 0
	var last error
	var callers sync.WaitGroup
	for range *soakThreads {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for range *soakIterations / *soakThreads {
				began := time.Now()
				err := call(ctx)
				took := time.Since(began)
				if limit := time.Duration(*soakLatency) * time.Millisecond; err == nil && took > limit {
					err = fmt.Errorf("took %v, more than %v", took, limit)
				}
				mu.Lock()
				done++
				if err != nil {
					failures, last = failures+1, err
				}
				mu.Unlock()
				time.Sleep(time.Duration(*soakPause)*time.Millisecond - took)
			}
		}()
	}
	callers.Wait()
	if failures > *soakFailures {
		return fmt.Errorf("%d of %d iterations failed, the last with: %w", failures, done, last)
	}
	return nil
}
