package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // its users may compress messages
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/chat"
	"wirelab.dev/internal/wire/workload/chat/chatpb"
	"wirelab.dev/internal/wire/workload/echo"
	"wirelab.dev/internal/wire/workload/echo/echopb"
	"wirelab.dev/internal/wire/workload/store"
	"wirelab.dev/internal/wire/workload/store/storepb"
)

// sites are the servers that scripts load, or find that they cannot.
var sites = map[string]func(*testscript.TestScript) string{
	"http":         func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, plainSite) },
	"https":        func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, securedSite) },
	"mutual":       func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, mutualSite) },
	"http3":        func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, quicSite) },
	"expired":      func(ts *testscript.TestScript) string { return serveSite(ts, secure.Expired, securedSite) },
	"grpc":         func(ts *testscript.TestScript) string { return serveEcho(ts, "tcp", true) },
	"otherName":    func(ts *testscript.TestScript) string { return serveSite(ts, secure.WrongName, securedSite) },
	"unreflective": func(ts *testscript.TestScript) string { return serveEcho(ts, "tcp", false) },
	"socket":       func(ts *testscript.TestScript) string { return serveEcho(ts, "unix", true) },
	"hangs":        func(ts *testscript.TestScript) string { return serveBytes(ts, "", holdOpen) },
	"breaks": func(ts *testscript.TestScript) string {
		return serveBytes(ts, "HTTP/1.1 200 OK\r\nContent-Len", hangUp)
	},
	"endless": func(ts *testscript.TestScript) string { return serveBytes(ts, "HTTP/1.1 200 OK\r\n\r\n", withoutEnd) },
	"strange": func(ts *testscript.TestScript) string { return serveBytes(ts, "SSH-2.0-OpenSSH_10\r\n", hangUp) },
	"nobody":  nobody,
}

// site starts a server for the rest of a script, and puts its address into a variable:
// site KIND VARIABLE.
func site(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || sites[args[0]] == nil {
		ts.Fatalf("usage: site KIND VARIABLE")
	}
	ts.Setenv(args[1], sites[args[0]](ts))
}

// What carries the pages of a site.
const (
	plainSite   = iota
	securedSite // over TLS, with its root in root.pem
	mutualSite  // wants the client certificate in client.pem, too
	quicSite    // HTTP/3 alone
)

// serveSite serves pages: /echo answers with the request's body, /never never answers,
// /broken ends what carries the call, /stall stands still for 200 ms of each second, /limit refuses all calls,
// and /chat is a WebSocket that sends each message back. The script command asked counts the calls of /echo.
func serveSite(ts *testscript.TestScript, flaw secure.Flaw, carrier int) string {
	began := time.Now()
	mux := http.NewServeMux()
	calls := &siteCalls{counts: map[string]int{}}
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		calls.countHTTP(ts, r)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
	})
	serveStreams(mux)
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("photo")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = file.Close()
		w.Header().Set("Uploaded", header.Filename+" "+header.Header.Get("Content-Type")+" "+r.FormValue("name"))
	})
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	mux.HandleFunc("/limit", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	mux.HandleFunc("/stall", func(http.ResponseWriter, *http.Request) {
		if within := time.Since(began) % time.Second; within < stallLength {
			time.Sleep(stallLength - within)
		}
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.EnableHTTP2 = true
	if carrier == plainSite {
		server.Start()
	} else {
		identity, err := secure.Issue(secure.Choice{}, flaw)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("root.pem"), identity.RootPEM(), 0o600))
		server.TLS = identity.ServerConfig("h2", "http/1.1")
		if carrier == mutualSite {
			calls.certificate = issueClient(ts)
			server.TLS.ClientAuth = tls.RequireAnyClientCert
		}
		server.StartTLS()
	}
	ts.Defer(server.Close)
	at := server.Listener.Addr().String()
	if carrier == quicSite {
		at = serveQUIC(ts, server)
	}
	calls.keepAt(ts, at)
	return at
}

// serveQUIC serves the pages of a site over HTTP/3.
func serveQUIC(ts *testscript.TestScript, site *httptest.Server) string {
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	ts.Check(err)
	server := &http3.Server{Handler: site.Config.Handler, TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: site.TLS.Certificates})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(packets) }) // ends with Close
	ts.Defer(func() {
		_ = server.Close()
		_ = packets.Close()
		serving.Wait()
	})
	return packets.LocalAddr().String()
}

// issueClient writes a client's certificate and key as client.pem and client-key.pem, and returns the certificate.
func issueClient(ts *testscript.TestScript) []byte {
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	ts.Check(err)
	own := identity.ServerConfig().Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	ts.Check(err)
	for name, block := range map[string]pem.Block{
		"client.pem": {Type: "CERTIFICATE", Bytes: own.Certificate[0]}, "client-key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(&block), 0o600))
	}
	return own.Certificate[0]
}

// siteCalls counts the calls of a site, and the calls by what came with them: their method and protocol, each header
// field, the client's certificate, and the deadline.
type siteCalls struct {
	certificate []byte // of the client, if the site wants one

	mu     sync.Mutex
	counts map[string]int
	scrape string // the 50th call waits until the metrics at this address count calls
}

// siteCallsAt has the *siteCalls of each site by its address.
var siteCallsAt sync.Map

func (c *siteCalls) keepAt(ts *testscript.TestScript, address string) {
	siteCallsAt.Store(address, c)
	ts.Defer(func() { siteCallsAt.Delete(address) })
}

// count counts a call with what came with it, and returns its number and where to scrape.
func (c *siteCalls) count(facts ...string) (number int, scrape string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fact := range append(facts, "") {
		c.counts[fact]++
	}
	return c.counts[""], c.scrape
}

func (c *siteCalls) countHTTP(ts *testscript.TestScript, r *http.Request) {
	facts := []string{r.Method + " " + r.URL.RequestURI(), r.Proto}
	for name, values := range r.Header {
		facts = append(facts, name+": "+strings.Join(values, ", "))
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && bytes.Equal(r.TLS.PeerCertificates[0].Raw, c.certificate) {
		facts = append(facts, "client.pem")
	}
	const scrapingCall = 50
	if number, scrape := c.count(facts...); number == scrapingCall && scrape != "" {
		for counted := false; !counted && r.Context().Err() == nil; {
			counted = scrapeCalls(ts, scrape)
		}
	}
}

// scrapeCalls reports whether the metrics at an address have counted calls.
func scrapeCalls(ts *testscript.TestScript, address string) bool {
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		ts.Logf("scrape: %v", err)
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return err == nil && regexp.MustCompile(`(?m)^wirelab_requests_total\{[^}]*\} [1-9]`).Match(text)
}

// countGRPC counts a call of gRPC. The deadline is counted in tens of seconds, because the client allows the
// server a little more than its own limit.
func (c *siteCalls) countGRPC(ctx context.Context, method string) {
	facts := []string{method}
	fields, _ := metadata.FromIncomingContext(ctx)
	for name, values := range fields {
		facts = append(facts, name+": "+strings.Join(values, ", "))
	}
	if deadline, is := ctx.Deadline(); is {
		facts = append(facts, fmt.Sprint("deadline ", time.Until(deadline).Round(10*time.Second)))
	}
	c.count(facts...)
}

// asked wants a site to have had N calls of /echo, or of gRPC, since the last asked, or N with this header field or
// other fact: asked ADDRESS N [FACT].
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: asked ADDRESS N [FACT]")
	}
	c := callsAt(ts, args[0])
	c.mu.Lock()
	defer c.mu.Unlock()
	fact := strings.Join(args[2:], "")
	if had := c.counts[fact]; args[1] != strconv.Itoa(had) {
		ts.Fatalf("%s had %d calls, want %s; all: %v", args[0], had, args[1], c.counts)
	}
	delete(c.counts, fact)
}

func callsAt(ts *testscript.TestScript, address string) *siteCalls {
	calls, known := siteCallsAt.Load(address)
	if !known {
		ts.Fatalf("there is no site at %s", address)
	}
	return calls.(*siteCalls) //nolint:forcetypeassert // keepAt alone stores
}

// scraped has a site scrape the metrics at an address in its 50th call of /echo from now: scraped SITE ADDRESS.
func scraped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: scraped SITE ADDRESS")
	}
	c := callsAt(ts, args[0])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.scrape = map[string]int{}, args[1]
}

// stallLength is for how long of each second /stall stands still.
const stallLength = 200 * time.Millisecond

// serveEcho serves the workloads echo, store and chat by grpc-go. Their description is in services.protoset.
func serveEcho(ts *testscript.TestScript, network string, reflects bool) string {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = ts.MkAbs("socket")
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	ts.Check(err)
	calls := &siteCalls{counts: map[string]int{}}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			calls.countGRPC(ctx, info.FullMethod)
			return next(ctx, request)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			calls.countGRPC(stream.Context(), info.FullMethod)
			return next(srv, stream)
		}))
	var described descriptorpb.FileDescriptorSet
	for _, served := range []workload.Workload{echo.Workload{}, store.Workload{}, chat.Workload{}} {
		served.Register(server, workload.Parameters{})
	}
	for _, file := range []protoreflect.FileDescriptor{echopb.File_internal_wire_workload_echo_echo_proto, storepb.File_internal_wire_workload_store_store_proto, chatpb.File_internal_wire_workload_chat_chat_proto} {
		described.File = append(described.File, protodesc.ToFileDescriptorProto(file))
	}
	text, err := proto.Marshal(&described)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("services.protoset"), text, 0o600))
	if reflects {
		reflection.Register(server)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	ts.Defer(server.Stop)
	at := strings.TrimPrefix(listener.Addr().String(), "@")
	calls.keepAt(ts, at)
	return at
}

// What a server of bytes does after them.
const (
	hangUp = iota
	holdOpen
	withoutEnd
)

// serveBytes serves a beginning of an answer, and then ends, waits, or goes on without end.
func serveBytes(ts *testscript.TestScript, text string, then int) string {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ended := make(chan struct{})
	ts.Defer(func() { close(ended); _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the script, or with the client
				defer func() { _ = conn.Close() }()
				if text != "" {
					_, _ = conn.Read(make([]byte, 1<<10))
				}
				_, err := io.WriteString(conn, text)
				for then == withoutEnd && err == nil {
					_, err = conn.Write(make([]byte, 64<<10))
				}
				if then == holdOpen {
					<-ended
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// nobody is an address at which nothing listens.
func nobody(ts *testscript.TestScript) string {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
