package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/compose"
	"wirelab.dev/internal/wire/service/feed"
	"wirelab.dev/internal/wire/service/reach"
)

// define returns the load's definition for the worker, and the first request of the load.
func (l *loadFlags) define(ctx context.Context, t service.Target) (*service.Definition, *service.Request, error) {
	d, err := l.describe(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	first, err := reach.FirstRequest(d, l.seed)
	if err != nil {
		return nil, nil, usageError(err)
	}
	return d, first, nil
}

// describe returns the load's definition. Requests in the definition may contain templates.
func (l *loadFlags) describe(ctx context.Context, t service.Target) (*service.Definition, error) {
	request, err := l.request.Compose(t)
	if err != nil {
		return nil, usageError(err)
	}
	d, err := l.findService(ctx, t)
	if err != nil {
		return nil, err
	}
	if d.Holding, err = l.holding(t); err != nil {
		return nil, usageError(err)
	}
	l.notes, d.Authority = request.Notes, cmp.Or(request.Host, d.Authority)
	d.Requests, d.Random, d.Compress = request.All, l.request.random, l.grpc.encoding != ""
	if err := errors.Join(l.expect.apply(d), l.addTrace(d)); err != nil {
		return nil, usageError(err)
	}
	if !l.grpc.Binary {
		d.Feed, err = l.request.newFeed(request.All)
	} else if l.request.rows != "" {
		err = errors.New("--rows and --binary: rows fill templates, and an encoded message has none: write the message as JSON")
	}
	if err != nil {
		return nil, usageError(err)
	}
	if t.Wire.IsGRPC() && l.journey.script == nil {
		if err := l.waiting.Do(ctx, func() error { return l.findMethod(ctx, t, d) }); err != nil {
			return d, err
		}
	}
	return d, l.finishHolding(d)
}

// findService returns a definition that says where the target is. It has no requests.
func (l *loadFlags) findService(ctx context.Context, t service.Target) (_ *service.Definition, err error) {
	d := &service.Definition{
		Wire: t.Wire, Network: t.Network(), Address: t.Socket, Authority: cmp.Or(l.request.host, t.Authority()), Timeout: l.timeout, Retry: l.retry,
	}
	if t.Secure {
		if d.TLS, err = l.identity.read(cmp.Or(hostOf(l.request.host), t.Host)); err != nil {
			return nil, usageError(err)
		}
	} else if l.identity != (tlsFlags{}) && l.identity.trust != (trustFlags{insecure: true}) {
		return nil, usageError(errors.New("--cacert, --cert, --key and --sni need TLS: write https:// or grpcs://"))
	}
	if d.Network == "tcp" {
		d.Address, d.Addresses, err = reach.LookUp(ctx, t)
	}
	return d, err
}

// findMethod finds the gRPC method of the definition's request.
func (l *loadFlags) findMethod(ctx context.Context, t service.Target, d *service.Definition) error {
	found := reach.ProbeIfSlow(ctx, d.Network, d.Address)
	defer found.Stop()
	if !l.fleet.IsNamed() || l.grpc.AsksServer() {
		if err := reach.TryConnection(ctx, d); err != nil {
			return reach.DescribeFailure(d, err, found.Result(), reach.DescribeTimeout)
		}
	}
	err := l.grpc.Find(ctx, d, d.Requests[0])
	switch _, is := status.FromError(err); {
	case err == nil:
		return nil
	case is: // the error has a gRPC status: the connection failed
		return reach.DescribeFailure(d, err, found.Result(), reach.DescribeTimeout)
	}
	return fmt.Errorf("%s: %w", t, err)
}

// hostOf returns the host of HOST or HOST:PORT.
func hostOf(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return strings.Trim(text, "[]")
}

// newFeed returns the data that varies the requests. It returns nil if all requests are the same.
func (r *requestFlags) newFeed(requests []service.Request) (*service.Feed, error) {
	f := &service.Feed{Requests: requests, Random: r.random}
	if r.rows != "" {
		file, err := os.Open(r.rows)
		if err != nil {
			return nil, fmt.Errorf("--rows: %w", err)
		}
		defer func() { _ = file.Close() }()
		if f.Rows, err = feed.ReadRows(r.rows, file); err != nil {
			return nil, fmt.Errorf("--rows: %w", err)
		}
		return f, nil
	}
	if !slices.ContainsFunc(requests, compose.HasTemplate) {
		return nil, nil
	}
	return f, nil
}

// read returns the TLS options. host is the server's name if --sni is not given.
func (i *tlsFlags) read(host string) (_ *service.TLS, err error) {
	as := &service.TLS{ServerName: cmp.Or(i.sni, host)}
	if as.Trust, err = i.trust.trust(); err != nil {
		return nil, err
	}
	if (i.certificate == "") != (i.key == "") {
		return nil, errors.New("--cert and --key: give both of them")
	}
	return as, readFiles(fileFlag{"--cert", i.certificate, &as.Certificate}, fileFlag{"--key", i.key, &as.Key})
}

type requestFlags struct {
	compose.Options
	host    string
	rules   service.AddressRules
	rows    string
	list    string
	random  bool
	version string
	socket  string
}

func (r *requestFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&r.Method, "method", "m", "", "HTTP `method` (default GET, or POST with a body)")
	f.StringArrayVarP(&r.Headers, "header", "H", nil, "header `field`, as in 'Accept: text/html', or @FILE with one field per line; with gRPC a metadata field")
	f.StringVarP(&r.Data, "data", "d", "", "body of the request: `text`, @FILE, or the name of a file; - is standard input; with gRPC in JSON")
	f.StringVarP(&r.File, "data-file", "D", "", "`file` with the body")
	f.StringArrayVarP(&r.Forms, "form", "F", nil, "a `part` of a multipart form, as in name=value, or photo=@cat.png;type=image/png for a file; repeatable")
	f.StringVarP(&r.Kind, "content-type", "T", "", "Content-`Type` of the body (default: JSON's or a form's, if the body is one)")
	f.StringVar(&r.host, "host", "", "`name` of the server in each request, and over TLS in its certificate (default: the target's name)")
	f.StringArrayVar(&r.rules.ConnectTo, "connect-to", nil, "`HOST1:PORT1:HOST2:PORT2`: connect to HOST2:PORT2 in place of HOST1:PORT1; names in requests and certificates stay; repeatable")
	f.StringArrayVar(&r.rules.Resolve, "resolve", nil, "`HOST:PORT:ADDRESS`: connect to this address, or to several with commas between them, in place of looking HOST up; repeatable")
	f.StringVar((*string)(&r.rules.Policy), "addresses", string(service.FirstAddress), "addresses of the target's name that get requests: `first`, all (in turn), or least (the address with the fewest requests in flight)")
	setCompletions(cmd, "addresses", service.Policies)
	f.DurationVar(&r.rules.Every, "lookup-every", 0, "look the target's name up again after each `time` during the load: requests then go to the new addresses")
	f.StringVar(&r.rules.Server, "dns", "", "`address` of the name server that looks the target's name up, as in 127.0.0.1:5353 (default: that of this machine)")
	f.StringVar(&r.User, "user", "", "`NAME:PASSWORD` for basic authentication; @FILE and '$NAME' read it from a file or the environment")
	f.StringVar(&r.Bearer, "bearer", "", "`token` for bearer authentication; @FILE and '$NAME' read it from a file or the environment")
	f.StringVar(&r.rows, "rows", "", "`file` of data for templates, one row per call: CSV with a line of names, or JSON lines")
	f.StringVar(&r.list, "targets", "", "`file` with several requests in place of TARGET, which are sent in turn: URLs, or vegeta's targets in HTTP or JSON form; - is standard input")
	f.BoolVar(&r.random, "random", false, "use the rows of --rows in random order, and the requests too if there are several")
	f.StringVar(&r.version, "http", "", "HTTP `version`: 1.1, 2 or 3 (default: 1.1; for gRPC: 2)")
	f.StringVar(&r.socket, "unix-socket", "", "connect to this unix `socket` in place of the URL's host")
	setCompletions(cmd, "http", []string{"1.1", "2", "3"})
	setCompletions(cmd, "method", compose.Methods)
}

// readList reads the file of --targets, and returns the URL of its server.
func (r *requestFlags) readList(text string, input io.Reader) (_ string, err error) {
	if r.list == "" {
		return text, nil
	}
	if r.Targets == nil { // the second version has the same requests
		if r.Targets, err = compose.ReadTargets(r.list, input); err != nil {
			return "", fmt.Errorf("--targets: %w", err)
		}
	}
	return r.Targets.Server(text)
}

// target parses the target's address and applies the flags --http and --unix-socket.
func (r *requestFlags) target(text, usual string) (service.Target, error) {
	t, err := service.ParseTarget(text, usual)
	if err != nil {
		return t, err
	}
	if r.socket != "" {
		t.Socket = r.socket
	}
	switch {
	case t.Wire == service.WebSocket && r.version != "" && r.version != "1.1":
		return t, fmt.Errorf("--http %s: wirelab opens WebSockets over HTTP/1.1: leave out --http", r.version)
	case r.version == "" || r.version == "1.1" && !t.Wire.IsGRPC() || r.version == "2" && t.Wire.IsGRPC():
	case r.version == "2":
		t.Wire = service.HTTP2
	case r.version == "3" && t.Socket != "":
		return t, errors.New("--http 3: QUIC needs UDP, but the target is a unix socket: leave out --http 3")
	case r.version == "3" && t.Wire.IsGRPC():
		t.Wire = service.GRPCH3
	case r.version == "3":
		t.Wire = service.HTTP3
	default:
		return t, fmt.Errorf("--http %s: want 1.1, 2 or 3; gRPC goes over 2 or 3", r.version)
	}
	if (t.Wire == service.HTTP3 || t.Wire == service.GRPCH3) && !t.Secure {
		return t, fmt.Errorf("--http 3: QUIC always uses TLS: write https:// or grpcs:// in place of %s://", strings.SplitN(t.String(), ":", 2)[0])
	}
	return t, nil
}

type tlsFlags struct {
	trust       trustFlags
	certificate string
	key         string
	sni         string
}

func (i *tlsFlags) register(f *pflag.FlagSet) {
	i.trust.register(f)
	f.StringVar(&i.certificate, "cert", "", "the client's own certificate: a PEM `file`")
	f.StringVar(&i.key, "key", "", "the key of --cert: a PEM `file`")
	f.StringVar(&i.sni, "sni", "", "`name` of the server in the TLS handshake and in its certificate (default: --host, or the target's name)")
}

type methodFlags struct {
	reach.Method
	call      string
	plaintext bool
	encoding  string // the compression of messages; empty means none
}

func (m *methodFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.Proto, "proto", "", "gRPC: the .proto `file` with the service (default: ask the server by reflection)")
	f.StringArrayVar(&m.Imports, "import-path", nil, "gRPC: `directory` of --proto and its imports (default: the directory of the --proto file)")
	f.StringVar(&m.Protoset, "protoset", "", "gRPC: `file` of descriptors, written by protoc --descriptor_set_out or buf build -o")
	f.StringVar(&m.call, "call", "", "gRPC: the `method`, as in pkg.Service/Method, if the target does not name it")
	f.BoolVar(&m.plaintext, "plaintext", false, "gRPC: use no TLS if the target has no scheme")
	f.StringVarP(&m.encoding, "encoding", "e", "", "gRPC: compress messages with `gzip`, and let the server do so, too")
	f.BoolVar(&m.Binary, "binary", false, "gRPC: --data holds an encoded message, or several, each behind its length as a varint (default: JSON); WebSocket: messages are binary (default: text)")
	setCompletions(cmd, "encoding", []string{"gzip"})
	f.DurationVar(&m.Pace, "pace", 0, "gRPC: `time` between two messages that a call sends")
	f.IntVar(&m.Messages, "messages", 1, "gRPC: how many times each streaming call sends its `messages`")
}

func (m *methodFlags) isGRPC() bool {
	return m.call != "" || m.encoding != "" || m.Binary || m.Proto != "" || m.Protoset != "" || m.plaintext
}

func (m *methodFlags) defaultScheme() string {
	switch {
	case m.isGRPC() && m.plaintext:
		return "grpc"
	case m.isGRPC():
		return "grpcs"
	default:
		return "http"
	}
}

func (m *methodFlags) apply(t *service.Target) error {
	forGRPC := *m
	forGRPC.Binary = m.Binary && t.Wire != service.WebSocket
	switch {
	case !t.Wire.IsGRPC() && forGRPC.isGRPC():
		return errors.New("--call, --proto, --protoset, --encoding, --binary and --plaintext need gRPC: write grpc:// or grpcs://")
	case !t.Wire.IsGRPC():
		return nil
	case m.Pace < 0:
		return fmt.Errorf("--pace: found %v: want 0s or more", m.Pace)
	case m.Messages < 1:
		return fmt.Errorf("--messages: found %d: want 1 or more", m.Messages)
	case m.encoding != "" && m.encoding != "gzip":
		return fmt.Errorf("--encoding %s: want gzip", m.encoding)
	case m.encoding != "" && t.Wire == service.GRPCH3:
		return errors.New("--encoding gzip: over HTTP/3, messages are sent without compression: leave out --encoding or --http 3")
	case t.Path == "" && m.call == "": // the error then lists the server's methods
	case t.Path == "":
		t.Path = "/" + strings.TrimPrefix(m.call, "/")
	case m.call != "":
		return fmt.Errorf("--call %s: the target already names the method %s: give one of the two", m.call, t.Path)
	}
	return nil
}

type expectFlags struct {
	conditions []string
	share      float64
}

func (e *expectFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&e.conditions, "expect", nil, "`condition` of a correct answer, as in 'status == 201', 'json(.ok) == true' or 'latency < 20ms' (default: a status below 400; for gRPC: OK); "+
		"a condition may use "+expect.UsableNames)
	f.Float64Var(&e.share, "expect-sample", 1, "`share` of the answers whose bodies --expect checks, from 0 to 1")
}

// apply checks the conditions for answers and adds them to the definition.
func (e *expectFlags) apply(d *service.Definition) error {
	for _, text := range e.conditions {
		if _, err := expect.Parse(text, d.Wire.Kind()); err != nil {
			return fmt.Errorf("--expect: %w", err)
		}
	}
	if !(e.share > 0 && e.share <= 1) {
		return fmt.Errorf("--expect-sample: found %v: want a share above 0, up to 1", e.share)
	}
	d.Expect = e.conditions
	if e.share < 1 {
		d.ExpectSample = e.share
	}
	return nil
}

// addTrace adds a traceparent header to a share of the requests.
func (l *loadFlags) addTrace(d *service.Definition) error {
	switch {
	case !l.given("traceparent"):
		return nil
	case !(l.traced > 0 && l.traced <= 1):
		return fmt.Errorf("--traceparent: found %v: want a share above 0, at most 1, as in 0.01", l.traced)
	}
	if slices.ContainsFunc(d.Requests, func(r service.Request) bool { return r.HasField(service.TraceField) }) {
		return errors.New("--traceparent and -H traceparent: give one of them")
	}
	d.Trace = &service.Trace{Share: l.traced}
	return nil
}

// askPermission asks the user before it loads a target outside this machine and private networks.
func (a *app) askPermission(ctx context.Context, l *loadFlags, t service.Target) error {
	if l.mayLoad || t.Host == "" || t.Socket != "" || l.output.dryRun {
		return nil
	}
	public, err := reach.FindPublicAddress(ctx, t)
	if err != nil || public == nil {
		return err
	}
	found := fmt.Sprintf("%s is at %s, which is neither this machine nor a private network", public.Host, public)
	if in, is := a.stdin.(*os.File); is && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(a.stderr, found+". May you load it? Type yes: ")
		answer, _ := bufio.NewReader(in).ReadString('\n')
		if strings.TrimSpace(answer) == "yes" {
			return nil
		}
	}
	return usageError(errors.New(found + ": if you may load it, add --yes-i-may"))
}
