package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
)

// mostKept limits the part of a body that is kept in memory, and the size of one message.
const mostKept = 16 << 20

// httpClient carries requests of HTTP.
type httpClient struct {
	*httpwire.Client
	plan service.Plan
	base string // of the URLs
}

func openHTTP(ctx context.Context, plan service.Plan) (service.Client, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	wire := httpwire.ClientPlan{
		Version: plan.Wire.Version(), Network: plan.Network, Address: plan.Address, TLS: config, Silent: true,
		Connections: plan.Connections, Lifecycle: plan.Lifecycle, Dialer: plan.Dialer,
	}
	client, err := httpwire.NewClient(ctx, wire)
	if err != nil {
		return nil, err
	}
	return &httpClient{Client: client, plan: plan, base: wire.Scheme() + "://" + wire.Host()}, nil
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
	response, err := c.Do(sent)
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
	where, err := url.Parse(c.base + request.Path)
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

// withoutURL is the error without the words of net/http before it: which request failed is
// known.
func withoutURL(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	return err
}

// limited bounds a call, where the definition does.
func limited(ctx context.Context, d *service.Definition) (context.Context, context.CancelFunc) {
	if d.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d.Timeout)
}
