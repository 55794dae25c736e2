// Package library carries calls through libraries: HTTP/1.1 and HTTP/2 through net/http, HTTP/3
// through quic-go, gRPC through fastgrpc. It sends gRPC over HTTP/3 as plain HTTP/3 requests. It
// supports every definition, and costs more per call than package prepared.
package library

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/call/wire"
)

// maxKeptBytes limits the kept part of a body, and the size of one message.
const maxKeptBytes = 16 << 20

// Open makes a client for a plan. If connections are kept, they are open when it returns.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if plan.Wire == service.GRPC {
		return openGRPC(ctx, plan)
	}
	return openHTTP(ctx, plan)
}

type httpClient struct {
	*httpwire.Client
	plan service.Plan
	base string // the first part of each URL
}

func openHTTP(ctx context.Context, plan service.Plan) (service.Client, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	via := httpwire.ClientPlan{
		Version: plan.Wire.Version(), Network: plan.Network, Address: plan.Address, TLS: config, Silent: true,
		Connections: plan.Connections, Spare: plan.Spare, Lifecycle: plan.Lifecycle, Dialer: plan.Dialer,
	}
	client, err := httpwire.NewClient(ctx, via)
	if err != nil {
		return nil, err
	}
	return &httpClient{Client: client, plan: plan, base: via.Scheme() + "://" + via.Host()}, nil
}

func (c *httpClient) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	ctx, cancel := withTimeout(ctx, c.plan.Definition, request)
	defer cancel()
	if c.plan.Wire == service.GRPCH3 {
		return c.callGRPC(ctx, request, answer)
	}
	response, err := c.Respond(ctx, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	*answer = service.Answer{Status: response.StatusCode, Body: answer.Body[:0]}
	if !c.plan.Keep {
		answer.Bytes, err = io.Copy(io.Discard, response.Body)
		return err
	}
	answer.Header = response.Header
	if c.plan.Probe && answer.HasEvents() {
		return nil
	}
	kept := bytes.NewBuffer(answer.Body)
	_, err = kept.ReadFrom(io.LimitReader(response.Body, maxKeptBytes))
	answer.Body, answer.Bytes = kept.Bytes(), int64(kept.Len())
	if err == nil {
		var more int64
		more, err = io.Copy(io.Discard, response.Body)
		answer.Bytes += more
	}
	return err
}

// Respond sends a request, and returns the answer with its body open. The request gets the extra
// fields that it does not have.
func (c *httpClient) Respond(ctx context.Context, request *service.Request, extra ...service.Field) (*http.Response, error) {
	sent, err := c.newRequest(ctx, request, bytes.NewReader(request.Body))
	if err != nil {
		return nil, err
	}
	for _, f := range extra {
		if sent.Header.Get(f.Name) == "" {
			sent.Header.Set(f.Name, f.Value)
		}
	}
	if len(request.Body) == 0 {
		sent.Body = nil
	}
	sent.ContentLength = int64(len(request.Body))
	response, err := c.Do(sent)
	if err != nil {
		return nil, withoutURL(err)
	}
	c.plan.Dialer.UsedProtocol(fmt.Sprintf("h%d", response.ProtoMajor))
	return response, nil
}

func (c *httpClient) newRequest(ctx context.Context, request *service.Request, body io.Reader) (*http.Request, error) {
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

// withoutURL removes the method and URL that net/http adds to an error.
func withoutURL(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	return err
}

// withTimeout returns a context with the timeout of the request or of the definition, if one has one.
func withTimeout(ctx context.Context, d *service.Definition, request *service.Request) (context.Context, context.CancelFunc) {
	timeout := cmp.Or(request.Timeout, d.Timeout)
	if timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

func (c *httpClient) callGRPC(ctx context.Context, request *service.Request, answer *service.Answer) error {
	var body []byte
	for _, m := range request.Messages {
		body = wire.AppendMessage(body, m)
	}
	sent, err := c.newRequest(ctx, request, bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent.Header.Set("Content-Type", "application/grpc")
	sent.Header.Set("Te", "trailers")
	response, err := c.Do(sent)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	c.plan.Dialer.UsedProtocol(fmt.Sprintf("h%d", response.ProtoMajor))
	*answer = service.Answer{Body: answer.Body[:0]}
	if response.StatusCode != http.StatusOK {
		return failure.WithClass(failure.Application, fmt.Errorf("the server's answer is not gRPC: its HTTP status is %d", response.StatusCode))
	}
	if err := readMessages(response.Body, answer); err != nil {
		return err
	}
	if c.plan.Keep {
		answer.Header = response.Header.Clone()
		for name, values := range response.Trailer {
			answer.Header[name] = append(answer.Header[name], values...)
		}
	}
	return readStatus(response, answer)
}

// readMessages reads all messages of an answer, and keeps the last one.
func readMessages(from io.Reader, answer *service.Answer) error {
	for {
		_, length, err := wire.ReadPrefix(from)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if length > maxKeptBytes {
			return fmt.Errorf("a message of the answer has %d bytes, but the limit is %d bytes", length, maxKeptBytes)
		}
		message := bytes.NewBuffer(answer.Body[:0])
		if _, err := io.CopyN(message, from, int64(length)); err != nil {
			return fmt.Errorf("the answer ended in the middle of a message: %w", err)
		}
		answer.Body = message.Bytes()
		answer.Messages++
		answer.Bytes += int64(length)
	}
}

// readStatus reads the gRPC status from the trailers. If the answer consists only of a header, it
// reads the status from there.
func readStatus(response *http.Response, answer *service.Answer) error {
	fields := response.Trailer
	if fields.Get("Grpc-Status") == "" {
		fields = response.Header
	}
	code, err := strconv.Atoi(fields.Get("Grpc-Status"))
	if err != nil {
		return fmt.Errorf("the answer's grpc-status is %q: want a number", fields.Get("Grpc-Status"))
	}
	answer.Status = code
	if codes.Code(code) != codes.OK {
		answer.Message = wire.DecodeStatusMessage(fields.Get("Grpc-Message"))
	}
	return nil
}
