package catalog

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

const patience = time.Minute

// pair is both ends of a variant, connected.
type pair struct {
	t       *testing.T
	address string
	dialer  conn.Dialer
	stub    testpb.TestServiceClient
}

type answering struct {
	testpb.UnimplementedTestServiceServer
}

func (answering) Unary(_ context.Context, r *testpb.TestRequest) (*testpb.TestResponse, error) {
	return &testpb.TestResponse{Body: r.GetBody()}, nil
}

func connect(t *testing.T, text string) *pair {
	t.Helper()
	v := variant(t, text)
	s, err := Find(v.Stack)
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.NewServer(v)
	if err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(server, answering{})
	bound, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	p := &pair{t: t, address: bound.String()}
	target := stack.Target{Address: p.address, Dialer: &p.dialer, Operations: 4}
	if secured, ok := server.(stack.TLSServer); ok {
		target.Trust = secure.Trust{RootPEM: secured.RootPEM()}
	}
	client, err := s.NewClient(t.Context(), v, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	p.stub = testpb.NewTestServiceClient(client)
	return p
}

// secureVariants returns the variants of every stack that has TLS, over TLS. The test's service
// is not one that rest-json's resources are made for, so that it only connects.
func secureVariants(t *testing.T) []string {
	var all []string
	for _, s := range Stacks() {
		if _, elsewhere := s.(stack.PeerCarried); elsewhere {
			continue
		}
		for _, o := range s.Info().Options {
			if o.Key == "tls" {
				all = append(all, Secure(variant(t, s.Info().Name)).String())
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("only %v have TLS", all)
	}
	return all
}

// What connections agree on is recorded, for every stack over TLS; in cleartext there
// is no session.
func TestEveryStackTellsWhatItNegotiated(t *testing.T) {
	protocols := map[string]string{
		"tcp": "tcp-calls", "h1": "h1", "h2": "h2", "h3": "h3", "rest-json": "h1",
		"grpc": "h2", "fastgrpc": "h2", "connect": "h2", "grpc-h3": "h3", "creditrpc": "creditrpc/1",
	}
	for _, text := range secureVariants(t) {
		t.Run(text, func(t *testing.T) {
			p := connect(t, text)
			name := variant(t, text).Stack
			if _, err := p.stub.Unary(t.Context(), &testpb.TestRequest{Body: []byte("hello")}); err != nil && name != "rest-json" {
				t.Fatal(err)
			}
			n := p.dialer.Negotiated()
			if want, known := protocols[name]; n.Protocol == "" || known && n.Protocol != want {
				t.Errorf("protocol %q, want %q", n.Protocol, want)
			}
			if len(n.Sessions) != 1 {
				t.Fatalf("sessions %+v", n.Sessions)
			}
			s := n.Sessions[0]
			if s.Version != "TLS 1.3" || !strings.HasPrefix(s.Cipher, "TLS_") || s.Group != "X25519MLKEM768" || s.Connections < 1 || s.Resumed {
				t.Errorf("session %+v", s)
			}
			if want := map[string]string{"tcp-calls": "", "h1": "http/1.1"}; s.ALPN != n.Protocol && s.ALPN != want[n.Protocol] {
				t.Errorf("ALPN %q", s.ALPN)
			}
		})
	}
	t.Run("cleartext", func(t *testing.T) {
		if n := connect(t, "h2").dialer.Negotiated(); n.Protocol != "h2" || len(n.Sessions) != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// Every setting has its words, and what an option of the variant changes is listed.
func TestSettingsAreToldInFull(t *testing.T) {
	variants := append(secureVariants(t), "fake", "rest", "tcp", "h1", "h2", "file", "file:server=caddy", "fastgrpc:ends=client", "fastgrpc:ends=server",
		"fastgrpc:codec=vt,alias=on", "rest-json:http=2", "grpc:buffers=1MiB,codec=vt1,recv-pool=off,window=16MiB", "tcp:buffers=pooled")
	for _, text := range variants {
		for _, l := range []conn.Lifecycle{conn.Kept, conn.Fresh, conn.Resumed, conn.Early} {
			for _, s := range settingsOf(t, text, stack.Target{Lifecycle: l, Connections: 3}) {
				if s.Name == "" || s.Value == "" || s.Default == "" || s.Why == "" || s.Value == s.Default {
					t.Errorf("%s: %+v", text, s)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"grpc:window=16MiB":    "grpc.StaticConnWindowSize=16777216",
		"grpc:buffers=1MiB":    "grpc.WithReadBufferSize=1048576",
		"fastgrpc:ends=client": "grpc.MaxRecvMsgSize=16777216",
		"h3:handshakes=4":      "handshakes in progress=4",
		"h2:group=p256,tls=on": "tls.Config.CurvePreferences=[CurveP256]",
		"tcp:buffers=pooled":   "frame buffers kept by a connection=7",
		"rest-json:http=2":     "http.HTTP2Config.MaxConcurrentStreams=10000",
		"fastgrpc:alias=on":    "fastgrpc.AliasRequests=set",
		"h1":                   "http.Transport.MaxConnsPerHost=3",
		"connect":              "connect.WithReadMaxBytes=16777216",
		"grpc-h3":              "quic.Config.MaxIncomingStreams=10000",
		"file:server=caddy":    "servers.protocols=h1 h2c",
	} {
		if !strings.Contains(spelt(settingsOf(t, text, stack.Target{Connections: 3})), want+"\n") {
			t.Errorf("%s does not list %s", text, want)
		}
	}
}

func settingsOf(t *testing.T, text string, target stack.Target) []tuning.Setting {
	t.Helper()
	v := variant(t, text)
	s, err := Find(v.Stack)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := stack.SettingsOf(s, v, target)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func spelt(settings []tuning.Setting) string {
	var all strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&all, "%s=%s\n", s.Name, s.Value)
	}
	return all.String()
}

// A message that is larger than the libraries' own limits passes, as the declared
// limits say, and one that is larger than they say does not.
func TestTheDeclaredMessageLimitHolds(t *testing.T) {
	for _, text := range []string{"tcp", "rest", "h1", "h2", "h3", "grpc", "fastgrpc", "fastgrpc:ends=client", "connect", "grpc-h3"} {
		t.Run(text, func(t *testing.T) {
			if declared := spelt(settingsOf(t, text, stack.Target{})); !strings.Contains(declared, fmt.Sprintf("=%d\n", stack.MaxMessageBytes)) {
				t.Errorf("no limit is declared:\n%s", declared)
			}
			p := connect(t, text)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			body := make([]byte, 5<<20)
			if answer, err := p.stub.Unary(ctx, &testpb.TestRequest{Body: body}); err != nil || len(answer.GetBody()) != len(body) {
				t.Errorf("a message of 5 MiB: %v", err)
			}
			if _, err := p.stub.Unary(ctx, &testpb.TestRequest{Body: make([]byte, stack.MaxMessageBytes+1)}); err == nil {
				t.Error("a message above the declared limit passed")
			}
		})
	}
}

// What an HTTP/2 server says of itself on the wire is what is declared, and where
// nothing is declared it is the library's default.
func TestDeclaredWindowsAreOnTheWire(t *testing.T) {
	for _, test := range []struct {
		variant, declared string
		setting           http2.SettingID
		want              uint32
	}{
		{"h2", "http.HTTP2Config.MaxConcurrentStreams=10000", http2.SettingMaxConcurrentStreams, 10_000},
		{"connect", "http.HTTP2Config.MaxConcurrentStreams=10000", http2.SettingMaxConcurrentStreams, 10_000},
		{"h2", "http.Server.MaxHeaderBytes=65536", http2.SettingMaxHeaderListSize, 65536 + 320}, // net/http adds ten fields' overhead
		{"grpc:window=4MiB", "grpc.StaticStreamWindowSize=4194304", http2.SettingInitialWindowSize, 4 << 20},
		{"grpc", "", http2.SettingInitialWindowSize, 0},           // grpc-go's default is HTTP/2's, which it does not announce
		{"fastgrpc", "", http2.SettingInitialWindowSize, 2 << 20}, // the library's own
	} {
		t.Run(test.variant, func(t *testing.T) {
			settings := spelt(settingsOf(t, test.variant, stack.Target{}))
			switch {
			case test.declared == "" && strings.Contains(settings, "indowSize"):
				t.Errorf("a window is declared:\n%s", settings)
			case test.declared != "" && !strings.Contains(settings, test.declared+"\n"):
				t.Errorf("%s is not declared:\n%s", test.declared, settings)
			}
			if got := announced(t, connect(t, test.variant).address)[test.setting]; got != test.want {
				t.Errorf("the server announces %v = %d, want %d", test.setting, got, test.want)
			}
		})
	}
}

// announced are the settings of the server's first frame.
func announced(t *testing.T, address string) map[http2.SettingID]uint32 {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	framer := http2.NewFramer(conn, conn)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", frame)
	}
	all := map[http2.SettingID]uint32{}
	_ = settings.ForeachSetting(func(s http2.Setting) error {
		all[s.ID] = s.Val
		return nil
	})
	return all
}
