package protocol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Times for a connection to the hub. A lost connection is noticed after four to six seconds.
const (
	ConnectTimeout     = 5 * time.Second
	PingPeriod         = 2 * time.Second
	MaxUnansweredPings = 2
	reconnectWait      = 500 * time.Millisecond // a random time of at most this length is added
	// agentBufferBytes limits the messages that an agent stores while it cannot reach the hub. A
	// controller stores none (noBuffer), since its orders would arrive too late.
	agentBufferBytes = 1 << 20
	noBuffer         = -1
)

// Connect connects to the hub. ctx limits only the first connection, which tries each URL once. A
// lost connection is made again; report gets a line for the loss and for the new connection.
func Connect(ctx context.Context, c *Credentials, name string, report func(event string)) (*nats.Conn, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	dialer := &contextDialer{}
	dialer.first.Store(&ctx)
	options, err := c.Options(name, report)
	if err != nil {
		return nil, err
	}
	at := strings.Join(c.URLs, ",")
	options = append(options, nats.SetCustomDialer(dialer))
	stop := context.AfterFunc(ctx, dialer.closeLast)
	defer stop()
	conn, err := nats.Connect(at, options...)
	dialer.first.Store(nil)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			conn.Close()
		}
		return nil, ExplainConnect(at, ctx.Err())
	case err != nil:
		return nil, ExplainConnect(at, dialer.dialError(err))
	}
	return conn, nil
}

// Options returns NATS options for connecting to the hub. report gets a line for each event.
func (c *Credentials) Options(name string, report func(string)) ([]nats.Option, error) {
	if report == nil {
		report = func(string) {}
	}
	keeps := agentBufferBytes
	if c.Role == RoleController {
		keeps = noBuffer
	}
	options := []nats.Option{
		nats.Name(name), nats.CustomInboxPrefix(c.InboxPrefix()),
		nats.Timeout(ConnectTimeout), nats.PingInterval(PingPeriod), nats.MaxPingsOutstanding(MaxUnansweredPings),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(keeps), nats.DontRandomize(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // err is nil if this process closed the connection itself
				report(fmt.Sprintf("lost the connection to the hub: %v", err))
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) { report("connected to the hub again: " + conn.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(conn *nats.Conn, _ *nats.Subscription, err error) {
			report(fmt.Sprintf("the connection to the hub reported an error: %v", err))
			if errors.Is(err, nats.ErrAuthRevoked) {
				conn.Close() // trying again is of no use
			}
		}),
	}
	pair, err := nkeys.FromSeed(c.Seed)
	if err != nil {
		return nil, errors.New("the token's key for the hub is invalid: take a new token from `wirelab fleet token`")
	}
	if c.JWT != "" {
		options = append(options, nats.UserJWT(func() (string, error) { return c.JWT, nil }, pair.Sign))
	} else {
		options = append(options, nats.Nkey(PublicKeyOf(c.Seed), pair.Sign))
	}
	if trust := c.tlsConfig(); trust != nil {
		options = append(options, nats.Secure(trust))
	}
	return options, nil
}

// tlsConfig returns the TLS configuration for a hub. It returns nil if the hub does not use TLS.
// The client checks the name in the hub's certificate.
func (c *Credentials) tlsConfig() *tls.Config {
	if len(c.RootPEM) > 0 {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.RootPEM)
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots} // a hub offers TLS 1.3 only
	}
	for _, at := range c.URLs {
		if strings.HasPrefix(at, "tls:") {
			return &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return nil
}

// contextDialer dials under the caller's context until the first connection is made.
type contextDialer struct {
	first  atomic.Pointer[context.Context]
	failed atomic.Pointer[error] // the error of the latest failed dial
	last   atomic.Pointer[net.Conn]
}

// closeLast closes the latest connection: otherwise nats.go would wait for a TLS handshake.
func (d *contextDialer) closeLast() {
	if conn := d.last.Load(); conn != nil {
		_ = (*conn).Close()
	}
}

// dialError returns the latest error of Dial if err only says that no server was available.
func (d *contextDialer) dialError(err error) error {
	if failed := d.failed.Load(); failed != nil && errors.Is(err, nats.ErrNoServers) {
		return *failed
	}
	return err
}

// Dial implements nats.CustomDialer.
func (d *contextDialer) Dial(network, address string) (net.Conn, error) {
	ctx := context.Background()
	if first := d.first.Load(); first != nil {
		ctx = *first
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		d.failed.Store(&err)
		return nil, err
	}
	d.last.Store(&conn)
	return conn, nil
}

// ExplainConnect adds the likely reason and a remedy to an error of connecting to a hub.
func ExplainConnect(at string, err error) error {
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		lookup  *net.DNSError
		noTLS   tls.RecordHeaderError
	)
	remedy := ""
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		remedy = "the hub's certificate is not valid at this machine's time: set the clock, or start the hub again if it has run for years"
	case errors.As(err, &unknown):
		remedy = "the token's root did not sign the hub's certificate: this is another hub, or the hub has new keys; take a token from `wirelab fleet token` on the hub's machine"
	case errors.As(err, &name):
		remedy = "the hub's certificate does not name this address: start the hub with --advertise and this address, or use an address that `wirelab fleet up` prints"
	case errors.Is(err, nats.ErrSecureConnWanted), errors.As(err, &noTLS):
		remedy = "the hub does not speak TLS: this is another hub, or the hub was restarted with --no-tls; take a token from `wirelab fleet token`"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		remedy = "the hub does not know the token's key, the token has expired, or its owner was shut out: take a new token from `wirelab fleet token`"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, nats.ErrNoServers):
		remedy = "nothing listens on this address: start the hub with `wirelab fleet up`, or correct the address"
	case errors.As(err, &lookup):
		remedy = "the host name cannot be found: use an IP address, or a host name that this machine knows"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		remedy = "the hub did not answer: check the address, and whether a firewall blocks the port"
	}
	if remedy == "" {
		return fmt.Errorf("connect to the hub %s: %w", at, err)
	}
	return fmt.Errorf("connect to the hub %s: %w: %s", at, err, remedy)
}
