package library

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
)

// mostKept bounds the body of an answer that is looked at, and that of which messages are
// read out.
const mostKept = 16 << 20

// httpClient carries requests of HTTP.
type httpClient struct {
	plan   service.Plan
	trips  turns[doer]
	close  func() error
	scheme string
}

// doer sends a request.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

func openHTTP(ctx context.Context, plan service.Plan) (service.Client, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	c := &httpClient{plan: plan, scheme: "http"}
	if config != nil {
		c.scheme = "https"
	}
	switch plan.Wire {
	case service.HTTP3, service.GRPCH3:
		return c, c.openQUIC(ctx, config)
	case service.HTTP2:
		return c, c.openTCP(ctx, config, max(plan.Connections, 1), 1)
	default:
		return c, c.openTCP(ctx, config, 1, max(plan.Connections, 1))
	}
}

// openQUIC opens the connections of HTTP/3.
func (c *httpClient) openQUIC(ctx context.Context, config *tls.Config) error {
	client, err := httpwire.NewClient(ctx, httpwire.ClientPlan{
		Version: httpwire.HTTP3, Address: c.plan.Address, TLS: config,
		Connections: c.plan.Connections, Lifecycle: c.plan.Lifecycle, Dialer: c.plan.Dialer,
	})
	if err != nil {
		return err
	}
	c.trips.all, c.close = []doer{client}, client.Close
	return nil
}

// openTCP opens pools of connections. Those of HTTP/2 have one each, which net/http would
// otherwise add to.
func (c *httpClient) openTCP(ctx context.Context, config *tls.Config, pools, connections int) error {
	var all []*pool
	c.close = func() error {
		for _, p := range all {
			p.closeAll()
		}
		return nil
	}
	opening, ctx := errgroup.WithContext(ctx)
	for range pools {
		p := newPool(c.plan, config, connections)
		all = append(all, p)
		c.trips.all = append(c.trips.all, &http.Client{Transport: p.transport, CheckRedirect: noRedirect})
		if c.plan.Lifecycle == httpwire.Kept {
			opening.Go(func() error { return p.open(ctx, connections) })
		}
	}
	if err := opening.Wait(); err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// noRedirect returns an answer that says where else to go: that is another request.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// pool is a transport whose connections are open before its first request.
type pool struct {
	plan      service.Plan
	tls       *tls.Config
	transport *http.Transport
	opened    chan net.Conn
}

func newPool(plan service.Plan, config *tls.Config, connections int) *pool {
	p := &pool{plan: plan, tls: config, opened: make(chan net.Conn, connections)}
	p.transport = &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		DisableKeepAlives: plan.Lifecycle != httpwire.Kept, MaxIdleConnsPerHost: connections,
		DialContext: p.take, DialTLSContext: p.take,
	}
	if plan.Lifecycle == httpwire.Kept {
		p.transport.MaxConnsPerHost = connections
	}
	switch {
	case plan.Wire == service.HTTP1:
		p.transport.Protocols.SetHTTP1(true)
	case config != nil:
		p.transport.Protocols.SetHTTP2(true)
	default:
		p.transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return p
}

// open opens connections that the first requests find.
func (p *pool) open(ctx context.Context, connections int) error {
	opening, ctx := errgroup.WithContext(ctx)
	opening.SetLimit(dialsAtOnce)
	for range connections {
		opening.Go(func() error {
			conn, err := p.dial(ctx)
			if err == nil {
				p.opened <- conn
			}
			return err
		})
	}
	return opening.Wait()
}

// dialsAtOnce fits into a listen backlog of 128.
const dialsAtOnce = 64

// take gives net/http a connection that is open already, or a new one.
func (p *pool) take(ctx context.Context, _, _ string) (net.Conn, error) {
	select {
	case conn := <-p.opened:
		return conn, nil
	default:
		return p.dial(ctx)
	}
}

func (p *pool) dial(ctx context.Context) (net.Conn, error) {
	raw, err := p.plan.Dialer.DialContext(ctx, p.plan.Network, p.plan.Address)
	if err != nil || p.tls == nil {
		return raw, err
	}
	conn, err := p.plan.Dialer.HandshakeTLS(ctx, raw, p.tls)
	if err != nil {
		return nil, err
	}
	agreed := conn.ConnectionState().NegotiatedProtocol
	if p.plan.Wire == service.HTTP2 && !slices.Contains(httpwire.HTTP2.Protocols(), agreed) {
		return nil, errors.Join(fmt.Errorf("the server at %s does not speak HTTP/2: it chose the protocol %q", p.plan.Address, agreed), conn.Close())
	}
	return conn, nil
}

func (p *pool) closeAll() {
	p.transport.CloseIdleConnections()
	for {
		select {
		case conn := <-p.opened:
			_ = conn.Close()
		default:
			return
		}
	}
}

// Call implements service.Client.
func (c *httpClient) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	ctx, cancel := limited(ctx, c.plan.Definition)
	defer cancel()
	if c.plan.Wire == service.GRPCH3 {
		return c.callGRPC(ctx, request, answer)
	}
	sent, err := c.request(ctx, request, bytes.NewReader(request.Body))
	if err != nil {
		return err
	}
	if len(request.Body) == 0 {
		sent.Body = nil
	}
	sent.ContentLength = int64(len(request.Body))
	response, err := c.trips.take().Do(sent)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	c.plan.Dialer.UsedProtocol(fmt.Sprintf("h%d", response.ProtoMajor))
	*answer = service.Answer{Status: response.StatusCode, Body: answer.Body[:0]}
	if !c.plan.Keep {
		answer.Bytes, err = io.Copy(io.Discard, response.Body)
		return err
	}
	answer.Header = response.Header
	kept := bytes.NewBuffer(answer.Body)
	_, err = kept.ReadFrom(io.LimitReader(response.Body, mostKept))
	answer.Body, answer.Bytes = kept.Bytes(), int64(kept.Len())
	if err == nil {
		var more int64
		more, err = io.Copy(io.Discard, response.Body)
		answer.Bytes += more
	}
	return err
}

func (c *httpClient) request(ctx context.Context, request *service.Request, body io.Reader) (*http.Request, error) {
	where, err := url.Parse(c.scheme + "://" + c.host() + request.Path)
	if err != nil {
		return nil, err
	}
	sent, err := http.NewRequestWithContext(ctx, request.Method, where.String(), body)
	if err != nil {
		return nil, err
	}
	sent.Host = c.plan.Authority
	for _, f := range request.Header {
		sent.Header.Add(f.Name, f.Value)
	}
	if sent.Header.Get("User-Agent") == "" {
		sent.Header.Set("User-Agent", service.UserAgent)
	}
	return sent, nil
}

// host is what a URL has for the target; net/http dials nothing by it.
func (c *httpClient) host() string {
	if c.plan.Network == "unix" {
		return "localhost"
	}
	return c.plan.Address
}

// withoutURL is the error without the words of net/http before it: which request failed is
// known.
func withoutURL(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	return err
}

// Close implements service.Client.
func (c *httpClient) Close() error { return c.close() }
