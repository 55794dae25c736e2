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

// The timing of a connection to the hub. A lost peer is noticed after four to six seconds.
const (
	ConnectWithin = 5 * time.Second
	PingEvery     = 2 * time.Second
	PingsWithout  = 2
	reconnectWait = 500 * time.Millisecond // plus a random time of at most as much
	// An agent's messages are kept up to this size while the hub is away. A controller's
	// orders are not kept: the controller has given up on an order that would arrive late.
	agentKeepsBytes = 1 << 20
	keepsNothing    = -1
)

// Connect connects to the hub. ctx bounds the first connection, for which each URL is tried once.
// A connection that breaks later is made again, for ever; report gets both events. The caller
func Connect(ctx context.Context, c *Credentials, name string, report func(event string)) (*nats.Conn, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	dialer := &dialer{}
	dialer.first.Store(&ctx)
	options, err := c.Options(name, report)
	if err != nil {
		return nil, err
	}
	at := strings.Join(c.URLs, ",")
	options = append(options, nats.SetCustomDialer(dialer))
	stop := context.AfterFunc(ctx, dialer.giveUp)
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
		return nil, ExplainConnect(at, dialer.why(err))
	}
	return conn, nil
}

// Options returns the options of all connections. The user cannot choose any of them.
func (c *Credentials) Options(name string, report func(string)) ([]nats.Option, error) {
	if report == nil {
		report = func(string) {}
	}
	keeps := agentKeepsBytes
	if c.Role() == RoleController {
		keeps = keepsNothing
	}
	options := []nats.Option{
		nats.Name(name), nats.CustomInboxPrefix(c.InboxPrefix()),
		nats.Timeout(ConnectWithin), nats.PingInterval(PingEvery), nats.MaxPingsOutstanding(PingsWithout),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(keeps), nats.DontRandomize(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // none: it was closed
				report(fmt.Sprintf("the hub is lost: %v", err))
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) { report("the hub is back: " + conn.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { report(fmt.Sprintf("the hub: %v", err)) }),
	}
	pair, err := nkeys.FromSeed(c.Seed)
	if err != nil {
		return nil, errors.New("the key that opens the hub cannot be read")
	}
	if c.JWT != "" {
		options = append(options, nats.UserJWT(func() (string, error) { return c.JWT, nil }, pair.Sign))
	} else {
		options = append(options, nats.Nkey(PublicOf(c.Seed), pair.Sign))
	}
	if trust := c.trust(); trust != nil {
		options = append(options, nats.Secure(trust))
	}
	return options, nil
}

// trust returns the TLS configuration of a client, or nil if the hub has no TLS. The client checks
// the hub's name.
func (c *Credentials) trust() *tls.Config {
	if len(c.RootPEM) > 0 {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.RootPEM)
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
	}
	for _, at := range c.URLs {
		if strings.HasPrefix(at, "tls:") {
			return &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return nil
}

// dialer dials within the caller's context until the first connection stands.
type dialer struct {
	first  atomic.Pointer[context.Context]
	failed atomic.Pointer[error] // the last dial
	last   atomic.Pointer[net.Conn]
}

// giveUp ends a handshake that nats.go would still wait for.
func (d *dialer) giveUp() {
	if conn := d.last.Load(); conn != nil {
		_ = (*conn).Close()
	}
}

// why returns the error of a connection, or the error of the dial if nats.go says only that no
// server was there.
func (d *dialer) why(err error) error {
	if failed := d.failed.Load(); failed != nil && errors.Is(err, nats.ErrNoServers) {
		return *failed
	}
	return err
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx := context.Background()
	if first := d.first.Load(); first != nil {
		ctx = *first
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		d.failed.Store(&err)
		return nil, err
	}
	d.last.Store(&conn)
	return conn, nil
}

// ExplainConnect says why a connection to a hub failed, and what to do.
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
		remedy = "the root in the token did not sign its certificate: this is another hub, or it has new keys; take a token from wirelab fleet token on the hub's machine"
	case errors.As(err, &name):
		remedy = "its certificate does not name this address: start the hub with --advertise and this address, or use an address that wirelab fleet up prints"
	case errors.Is(err, nats.ErrSecureConnWanted), errors.As(err, &noTLS):
		remedy = "it speaks no TLS: this is another hub, or it was started with --no-tls since; take a token from wirelab fleet token"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		remedy = "it does not know the token's key: take a token from wirelab fleet token on the hub's machine"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, nats.ErrNoServers):
		remedy = "nothing listens there: start the hub by wirelab fleet up, or name its address"
	case errors.As(err, &lookup):
		remedy = "the name cannot be found: name an address, or one that this machine knows"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		remedy = "no answer: check the address, and whether a firewall blocks its port"
	}
	if remedy == "" {
		return fmt.Errorf("connect to the hub %s: %w", at, err)
	}
	return fmt.Errorf("connect to the hub %s: %w: %s", at, err, remedy)
}
