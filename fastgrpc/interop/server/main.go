// Command server runs the interoperability test's server with fastgrpc. Its flags are
// those of grpc-go's google.golang.org/grpc/interop/server.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // clients may ask for it
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/testdata"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/fastgrpc/interop"
)

func main() {
	useTLS := flag.Bool("use_tls", false, "Connection uses TLS if true, else plain TCP")
	useALTS := flag.Bool("use_alts", false, "ALTS is not supported")
	flag.String("alts_handshaker_service_address", "", "ALTS is not supported")
	certFile := flag.String("tls_cert_file", "", "The TLS cert file")
	keyFile := flag.String("tls_key_file", "", "The TLS key file")
	port := flag.Int("port", 10000, "The server port")
	flag.Parse()
	if *useALTS {
		log.Fatalf("-use_alts: %v", fastgrpc.ErrUnsupported)
	}
	lis, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		log.Fatalf("-port %d: %v", *port, err)
	}
	var opts []fastgrpc.ServerOption
	if *useTLS {
		if *certFile == "" {
			*certFile = testdata.Path("server1.pem")
		}
		if *keyFile == "" {
			*keyFile = testdata.Path("server1.key")
		}
		creds, err := credentials.NewServerTLSFromFile(*certFile, *keyFile)
		if err != nil {
			log.Fatalf("-tls_cert_file, -tls_key_file: %v", err)
		}
		opts = append(opts, fastgrpc.Creds(creds))
	}
	server := fastgrpc.NewServer(opts...)
	interop.Register(server)
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	log.Fatal(server.Serve(lis))
}
