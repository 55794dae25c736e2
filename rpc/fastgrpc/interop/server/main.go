// Command server runs the server of gRPC's interoperability tests with fastgrpc. It has the flags
// of google.golang.org/grpc/interop/server, except the flags for ALTS.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/testdata"

	"wirelab.dev/rpc/fastgrpc"
	"wirelab.dev/rpc/fastgrpc/interop"
)

func main() {
	useTLS := flag.Bool("use_tls", false, "use TLS; otherwise connections are not encrypted")
	certFile := flag.String("tls_cert_file", testdata.Path("server1.pem"), "the file with the server's TLS certificate")
	keyFile := flag.String("tls_key_file", testdata.Path("server1.key"), "the file with the private key of the TLS certificate")
	port := flag.Int("port", 10000, "the port on which the server listens; with 0 the system chooses a free port")
	flag.Parse()
	lis, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		log.Fatalf("cannot listen on -port %d: %v", *port, err)
	}
	fmt.Fprintln(os.Stderr, "interop server listening on", lis.Addr())
	var opts []fastgrpc.ServerOption
	if *useTLS {
		creds, err := credentials.NewServerTLSFromFile(*certFile, *keyFile)
		if err != nil {
			log.Fatalf("cannot read -tls_cert_file and -tls_key_file: %v", err)
		}
		opts = append(opts, fastgrpc.Creds(creds))
	}
	log.Fatal(interop.NewServer(opts...).Serve(lis))
}
