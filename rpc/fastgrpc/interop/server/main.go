// Command server runs the interoperability test's server with fastgrpc. It has the
// flags of grpc-go's google.golang.org/grpc/interop/server, except for ALTS.
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
	useTLS := flag.Bool("use_tls", false, "Connection uses TLS if true, else plain TCP")
	certFile := flag.String("tls_cert_file", testdata.Path("server1.pem"), "The TLS cert file")
	keyFile := flag.String("tls_key_file", testdata.Path("server1.key"), "The TLS key file")
	port := flag.Int("port", 10000, "The server port; 0 takes a free one")
	flag.Parse()
	lis, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		log.Fatalf("-port %d: %v", *port, err)
	}
	fmt.Fprintln(os.Stderr, "interop server listening on", lis.Addr())
	var opts []fastgrpc.ServerOption
	if *useTLS {
		creds, err := credentials.NewServerTLSFromFile(*certFile, *keyFile)
		if err != nil {
			log.Fatalf("-tls_cert_file, -tls_key_file: %v", err)
		}
		opts = append(opts, fastgrpc.Creds(creds))
	}
	log.Fatal(interop.NewServer(opts...).Serve(lis))
}
