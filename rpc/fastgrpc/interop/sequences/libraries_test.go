package sequences

import (
	"context"
	"net"
	"regexp"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"wirelab.dev/rpc/creditrpc"
	"wirelab.dev/rpc/fastgrpc"
)

// wide is a window that holds all messages of a call, so that no SendMsg waits for a reader: how
// far a sender may be ahead is not the same in two libraries.
const wide = 16 << 20

// A connection has the methods of the libraries' clients.
type connection interface {
	grpc.ClientConnInterface
	Close() error
}

// A listeningServer has the methods of the libraries' servers.
type listeningServer interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

type dialer = func(context.Context, string) (net.Conn, error)

type library struct {
	newServer func() listeningServer
	connect   func(dialer) (connection, error)
}

var grpcGo = library{
	newServer: func() listeningServer {
		return grpc.NewServer(grpc.InitialWindowSize(wide), grpc.InitialConnWindowSize(wide))
	},
	connect: func(dial dialer) (connection, error) {
		return grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(wide), grpc.WithInitialConnWindowSize(wide),
			grpc.WithContextDialer(dial))
	},
}

var fast = library{
	newServer: func() listeningServer { return fastgrpc.NewServer(fastgrpc.Windows(wide, wide)) },
	connect: func(dial dialer) (connection, error) {
		return fastgrpc.NewClient("passthrough:///memory", fastgrpc.WithTransportCredentials(insecure.NewCredentials()),
			fastgrpc.WithWindows(wide, wide), fastgrpc.WithContextDialer(dial))
	},
}

var credit = library{
	newServer: func() listeningServer {
		return creditrpc.NewServer(creditrpc.Window(wide), creditrpc.StreamWindow(wide))
	},
	connect: func(dial dialer) (connection, error) {
		return creditrpc.NewClient("memory:1", creditrpc.WithWindow(wide), creditrpc.WithStreamWindow(wide), creditrpc.WithDialer(dial))
	},
}

// A pairing is a client and a server.
type pairing struct {
	name           string
	client, server library
	page           *page          // names the differences that are allowed
	hidden         *regexp.Regexp // what only grpc-go's events have; nil if nothing
}

// original is grpc-go's own pairing. The others are compared with it.
var original = pairing{name: "gg", client: grpcGo, server: grpcGo}

var pairings = []pairing{
	{"gf", grpcGo, fast, fastPage, nil},
	{"fg", fast, grpcGo, fastPage, nil},
	{"ff", fast, fast, fastPage, nil},
	{"cc", credit, credit, creditPage, headersOfGRPC},
}

// headersOfGRPC finds the metadata that gRPC's wire format needs. creditrpc has no such metadata.
var headersOfGRPC = regexp.MustCompile(` (:authority|content-type|grpc-accept-encoding|grpc-status-details-bin|user-agent): (…|\[.*?\]|\d+ bytes [0-9a-f]+)`)

// A link joins a client and a server in memory. It can hold back what the client sends.
type link struct {
	listener *bufconn.Listener
	mu       sync.Mutex
	opened   *sync.Cond
	cut      bool
}

func newLink() *link {
	l := &link{listener: bufconn.Listen(1 << 18)}
	l.opened = sync.NewCond(&l.mu)
	return l
}

func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	l.opened.Broadcast()
}

func (l *link) Accept() (net.Conn, error) {
	nc, err := l.listener.Accept()
	if err != nil {
		return nil, err
	}
	return heldConn{nc, l}, nil
}

func (l *link) Close() error   { return l.listener.Close() }
func (l *link) Addr() net.Addr { return l.listener.Addr() }

// heldConn is the server's end of a link.
type heldConn struct {
	net.Conn
	link *link
}

func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for c.link.cut {
		c.link.opened.Wait()
	}
	return n, err
}

// start returns a client that is connected to a server with the service. stop ends both.
func (p pairing) start(t *testing.T, l *link, service *grpc.ServiceDesc) (cc connection, stop func()) {
	t.Helper()
	s := p.server.newServer()
	s.RegisterService(service, nil)
	cc, err := p.client.connect(func(ctx context.Context, _ string) (net.Conn, error) { return l.listener.DialContext(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // ends with Stop
	return cc, func() {
		l.setCut(false)
		if err := cc.Close(); err != nil {
			t.Errorf("%s: the client's Close: %v", p.name, err)
		}
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("%s: Serve: %v", p.name, err)
		}
	}
}
