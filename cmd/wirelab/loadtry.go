package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/library"
)

// lookUpAtMost bounds how long a name is looked up, firstAtMost how long the first call may
// take where the user sets no limit.
const (
	lookUpAtMost = 4 * time.Second
	firstAtMost  = 4 * time.Second
)

// lookUp finds the address of the target's host, so that no name is looked up while calls
// are made. Of several it takes the first at which something listens.
func lookUp(ctx context.Context, t service.Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := addressesOf(ctx, t.Host)
	if err != nil {
		return "", err
	}
	var found []string
	for _, address := range addresses {
		found = append(found, net.JoinHostPort(address.Unmap().String(), t.Port))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	for _, address := range found {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return address, nil
		}
	}
	return found[0], nil // what is wrong there is said by whoever calls it
}

// addressesOf are the addresses of a host. localhost is both loopback addresses, whatever the
// machine's table of hosts says (RFC 6761, section 6.3).
func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if strings.EqualFold(host, "localhost") {
		for _, address := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == address }) {
				addresses = append(addresses, address)
			}
		}
		return addresses, nil
	}
	if err != nil {
		return nil, fmt.Errorf("there is no address of %s: %w: check the name", host, firstCause(err))
	}
	return addresses, nil
}

// firstCause is what a lookup met, without the name that it repeats.
func firstCause(err error) error {
	if wrong, is := errors.AsType[*net.DNSError](err); is {
		return errors.New(wrong.Err)
	}
	return err
}

// permit asks whether a target may be loaded that is neither of this machine nor of a
// private network.
func (a *app) permit(ctx context.Context, l *loading, t service.Target) error {
	if l.mayLoad || t.Socket != "" || l.output.dryRun {
		return nil
	}
	addresses, err := addressesOf(ctx, t.Host)
	if err != nil {
		return err // not asked a second time: a server of names may hang
	}
	for _, address := range addresses {
		if isNear(address.Unmap()) {
			continue
		}
		refusal := fmt.Errorf("%s is at %s, which is neither this machine nor a private network: if it is yours to load, say so with --yes-i-may", t.Host, address.Unmap())
		if in, is := a.stdin.(*os.File); is && term.IsTerminal(int(in.Fd())) {
			fmt.Fprintf(a.stderr, "%s is at %s, which is neither this machine nor a private network. May you load it? Type yes: ", t.Host, address.Unmap())
			answer, _ := bufio.NewReader(in).ReadString('\n')
			if strings.TrimSpace(answer) == "yes" {
				return nil
			}
		}
		return usage(refusal)
	}
	return nil
}

// isNear reports whether an address is of this machine or of a private network.
func isNear(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}

// tryService makes one call, and says what came back. What cannot be called is not loaded.
func (a *app) tryService(ctx context.Context, l *loading, d *service.Definition, request *service.Request) error {
	limit := firstAtMost
	if l.given("timeout") && l.timeout > 0 {
		limit = l.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := lookMeanwhile(ctx, d)
	defer found.stop()
	begin := time.Now()
	sent := begin
	var answer service.Answer
	client, err := library.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: true, Dialer: &conn.Dialer{}})
	if err == nil {
		defer client.Close()
		sent = time.Now()
		err = a.firstCall(ctx, client, d, request, &answer)
	}
	if elsewhere, is := errors.AsType[*redirectError](err); is {
		return fmt.Errorf("%s: %w", sayService(d), elsewhere)
	}
	if err == nil && speaksNoGRPC(d, &answer) {
		err = fmt.Errorf("%w: %s", errNoGRPC, answer.Message)
	}
	if err != nil {
		return fmt.Errorf("%s: %s", sayService(d), sayServiceFault(d, err, found.result(), limit))
	}
	if answer.Status == http.StatusBadRequest && d.TLS == nil && !d.Wire.IsGRPC() {
		if there := lab.LookAt(ctx, d.Address); there.TLS {
			return fmt.Errorf("%s: %s", sayService(d), sayServiceFault(d, errTLSOnly, there, limit))
		}
	}
	ended := time.Now()
	status := (&service.StatusError{GRPC: d.Wire.IsGRPC(), Status: answer.Status, Message: answer.Message}).Said()
	fmt.Fprintf(a.stderr, "first call: %s, %d bytes, %v\n", status, answer.Bytes, ended.Sub(begin).Round(10*time.Microsecond))
	return a.meetExpectations(d, answer.Seen(ended.Sub(sent)))
}

// tryConnection opens a connection to the target.
func tryConnection(ctx context.Context, d *service.Definition) error {
	ctx, cancel := context.WithTimeout(ctx, describeAtMost)
	defer cancel()
	client, err := library.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Dialer: &conn.Dialer{}})
	if err != nil {
		return err
	}
	return client.Close()
}

// errNoGRPC is an answer of HTTP to a call of gRPC.
var errNoGRPC = errors.New("it speaks no gRPC")

// speaksNoGRPC reports whether an answer's code was made of an answer of HTTP. One that is
// Unavailable may be of a proxy that finds no server just now.
func speaksNoGRPC(d *service.Definition, answer *service.Answer) bool {
	if !d.Wire.IsGRPC() || len(d.Expect) > 0 || codes.Code(answer.Status) == codes.Unavailable {
		return false
	}
	return strings.Contains(answer.Message, "unexpected HTTP status") || strings.Contains(answer.Message, "response with content-type")
}

// errTLSOnly is what a server over TLS answers to a request without.
var errTLSOnly = errors.New("it answers 400 to a request without TLS")

// look is what is there, asked only where the first call fails or takes long: a server must not
// meet strange questions of one that calls it well.
type look struct {
	wanted chan struct{}
	over   chan struct{}
	found  chan lab.Listening
}

// lookAfter is how long a call may take before it is asked what is there, so that it is known
// when the call is given up.
const lookAfter = 500 * time.Millisecond

// lookMeanwhile waits for the reason to look. Whoever calls it calls stop at the end.
func lookMeanwhile(ctx context.Context, d *service.Definition) *look {
	l := &look{make(chan struct{}), make(chan struct{}), make(chan lab.Listening, 1)}
	go func() { // ends with stop, or with its questions, each of which has its time
		late := time.NewTimer(lookAfter)
		defer late.Stop()
		select {
		case <-l.over:
			return
		case <-l.wanted:
		case <-late.C:
		}
		if d.Network != "tcp" {
			l.found <- lab.Listening{}
			return
		}
		l.found <- lab.LookAt(context.WithoutCancel(ctx), d.Address)
	}()
	return l
}

// result is what is there. It is asked for once.
func (l *look) result() lab.Listening {
	close(l.wanted)
	return <-l.found
}

func (l *look) stop() { close(l.over) }

// sayService names a target and its wire.
func sayService(d *service.Definition) string {
	return fmt.Sprintf("%s (%s)", d.Address, d.Wire)
}

// sayServiceFault says why the target cannot be called, and what to do.
func sayServiceFault(d *service.Definition, err error, found lab.Listening, limit time.Duration) string {
	class := failure.Of(err)
	secure := d.TLS != nil
	quic := d.Wire == service.HTTP3 || d.Wire == service.GRPCH3
	onlyHTTP1 := found.Protocol == "HTTP/1.1" && !found.HTTP2
	switch {
	case strings.HasPrefix(string(class), string(failure.Certificate)):
		return fmt.Sprintf("its certificate is not trusted: %s: %s", firstOf(err), trustAnyway(err))
	case quic:
		return fmt.Sprintf("the call over QUIC, on UDP, failed: %s: check that a server of HTTP/3 listens there, or leave --http 3 out", firstOf(err))
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: start the server, or name the socket that it listens on"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(found.Err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused): start the server, or name the address that it listens on"
	case found.Err != nil:
		return fmt.Sprintf("it cannot be reached: %s: check the address, and that this machine may connect to it", firstOf(found.Err))
	case secure && !found.TLS && found.Protocol != "":
		return fmt.Sprintf("it speaks no TLS: %s is there: write %s:// in place of %s://", sayListening(found), scheme(d, false), scheme(d, true))
	case !secure && found.TLS:
		return fmt.Sprintf("%s is there: write %s:// in place of %s://, with --cacert FILE or -k for a certificate of your own", sayListening(found), scheme(d, true), scheme(d, false))
	case onlyHTTP1 && d.Wire == service.GRPC:
		return fmt.Sprintf("%s is there, and gRPC goes over HTTP/2: name the address of a gRPC server, or load it as %s://", sayListening(found), map[bool]string{true: "https", false: "http"}[secure])
	case onlyHTTP1 && d.Wire == service.HTTP2:
		return fmt.Sprintf("%s is there: leave --http 2 out", sayListening(found))
	case found.Protocol == "HTTP/2" && d.Wire == service.HTTP1 && !secure:
		return fmt.Sprintf("%s is there: add --http 2, or write grpc:// if it is a gRPC server", sayListening(found))
	case (class == failure.Deadline || class == failure.HandshakeTimeout) && found == (lab.Listening{}):
		return fmt.Sprintf("it takes connections and did not answer within %v: does it hang, or speak another protocol? --timeout gives it longer", limit)
	case class == failure.Deadline || class == failure.HandshakeTimeout:
		return fmt.Sprintf("no whole answer within %v: %s is there: --timeout gives it longer", limit, sayListening(found))
	case d.Wire.IsGRPC() && strings.Contains(err.Error(), "unexpected HTTP status code"):
		return fmt.Sprintf("%s is there, and answers reflection without gRPC: name the .proto with --proto if it passes other calls on, name the address of a gRPC server, or load it with --http 2 as %s://", sayListening(found), map[bool]string{true: "https", false: "http"}[secure])
	case errors.Is(err, errNoGRPC):
		return fmt.Sprintf("%s: name the address of a gRPC server, or load it with --http 2 as %s://", firstOf(err), map[bool]string{true: "https", false: "http"}[secure])
	case d.Network == "tcp" && found == (lab.Listening{}):
		return fmt.Sprintf("what listens there answers as neither HTTP nor TLS does (%s): name the address of a server that speaks %s", firstOf(err), map[bool]string{true: "gRPC", false: "HTTP"}[d.Wire.IsGRPC()])
	case class == failure.Closed, class == failure.Reset:
		return fmt.Sprintf("it ended the connection before its answer was whole (%s): see what the server says of it", firstOf(err))
	default:
		return fmt.Sprintf("the first call failed: %s", firstOf(err))
	}
}

// trustAnyway says what to do about a certificate that is not trusted.
func trustAnyway(err error) string {
	const anyway = "or take any certificate with -k"
	if _, is := errors.AsType[x509.HostnameError](err); is {
		return "name the target as its certificate does, " + anyway
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		return "renew it, " + anyway
	}
	return "give the root with --cacert FILE, " + anyway
}

// scheme is that of the definition's URL.
func scheme(d *service.Definition, secure bool) string {
	name := "http"
	if d.Wire.IsGRPC() {
		name = "grpc"
	}
	if secure {
		name += "s"
	}
	return name
}
