package library

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/fastgrpc"
)

// grpcClient carries calls of gRPC over HTTP/2.
type grpcClient struct {
	plan    service.Plan
	tls     *tls.Config
	clients turns[*fastgrpc.Client]
}

func openGRPC(ctx context.Context, plan service.Plan) (service.Client, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	c := &grpcClient{plan: plan, tls: config}
	if plan.Lifecycle != httpwire.Kept {
		return c, nil
	}
	c.clients.all = make([]*fastgrpc.Client, max(plan.Connections, 1))
	opening, ctx := errgroup.WithContext(ctx)
	opening.SetLimit(dialsAtOnce)
	for i := range c.clients.all {
		opening.Go(func() (err error) {
			c.clients.all[i], err = c.dial(ctx)
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// dial makes a client of one connection, which can carry calls when it returns. The first
// failure is returned, where the library would try again.
func (c *grpcClient) dial(ctx context.Context) (*fastgrpc.Client, error) {
	first, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	ahead := make(chan net.Conn, 1)
	ahead <- first
	client, err := fastgrpc.NewClient("passthrough:///"+c.plan.Address,
		fastgrpc.WithTransportCredentials(c.credentials()), fastgrpc.WithAuthority(c.plan.Authority),
		fastgrpc.WithUserAgent(service.UserAgent), fastgrpc.WithDisableRetry(), fastgrpc.WithNoProxy(),
		fastgrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case conn := <-ahead:
				return conn, nil
			default:
				return c.connect(ctx)
			}
		}))
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	if err := client.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	c.plan.Dialer.UsedProtocol("h2")
	return client, nil
}

func (c *grpcClient) connect(ctx context.Context) (net.Conn, error) {
	raw, err := c.plan.Dialer.DialContext(ctx, c.plan.Network, c.plan.Address)
	if err != nil || c.tls == nil {
		return raw, err
	}
	conn, err := c.plan.Dialer.HandshakeTLS(ctx, raw, c.tls)
	if err != nil {
		return nil, err
	}
	if agreed := conn.ConnectionState().NegotiatedProtocol; !slices.Contains(httpwire.HTTP2.Protocols(), agreed) {
		return nil, errors.Join(fmt.Errorf("the server at %s does not speak HTTP/2, and so no gRPC: it chose the protocol %q", c.plan.Address, agreed), conn.Close())
	}
	return conn, nil
}

// Call implements service.Client.
func (c *grpcClient) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	ctx, cancel := limited(ctx, c.plan.Definition)
	defer cancel()
	var sent []string
	for _, f := range request.Header {
		sent = append(sent, f.Name, f.Value)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, sent...)
	client, done, err := c.client(ctx)
	if err != nil {
		return err
	}
	defer done()
	*answer = service.Answer{Body: answer.Body[:0], Times: answer.Times[:0]}
	var header, trailer metadata.MD
	options := []grpc.CallOption{grpc.ForceCodecV2(raw{})}
	if c.plan.Keep {
		options = append(options, grpc.Header(&header), grpc.Trailer(&trailer))
	}
	if request.Stream == (service.Stream{}) {
		err = c.unary(ctx, client, request, answer, options)
	} else {
		err = stream(ctx, client, request, answer, options)
	}
	if c.plan.Keep {
		answer.Header = http.Header(metadata.Join(header, trailer))
	}
	return answered(answer, err)
}

// client returns a client for one call, and what ends its use.
func (c *grpcClient) client(ctx context.Context) (*fastgrpc.Client, func(), error) {
	if c.plan.Lifecycle == httpwire.Kept {
		return c.clients.take(), func() {}, nil
	}
	own, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	return own, func() { _ = own.Close() }, nil
}

func (c *grpcClient) unary(ctx context.Context, client *fastgrpc.Client, request *service.Request, answer *service.Answer, options []grpc.CallOption) error {
	var message []byte
	if len(request.Messages) > 0 {
		message = request.Messages[0]
	}
	if err := client.Invoke(ctx, request.Path, message, &answer.Body, options...); err != nil {
		return err
	}
	answer.Messages, answer.Bytes = 1, int64(len(answer.Body))
	return nil
}

// answered is the call's end: a status that the server sent is an answer.
func answered(answer *service.Answer, err error) error {
	if err == nil {
		return nil
	}
	told, is := status.FromError(err)
	if !is || failure.Of(err) != failure.Application {
		return err
	}
	answer.Status, answer.Message = int(told.Code()), told.Message()
	return nil
}

// Close implements service.Client.
func (c *grpcClient) Close() error {
	for _, client := range c.clients.all {
		if client != nil {
			_ = client.Close() // its error comes too late to matter
		}
	}
	return nil
}

// raw is a codec of messages that are encoded already.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	into := v.(*[]byte)
	*into = (*into)[:0]
	for _, b := range data {
		*into = append(*into, b.ReadOnlyData()...)
	}
	return nil
}

func (c *grpcClient) credentials() credentials.TransportCredentials {
	if c.tls == nil {
		return insecure.NewCredentials()
	}
	return handshakeDone{}
}

// handshakeDone are the credentials of connections that the dialer has secured.
type handshakeDone struct{}

var errClientOnly = errors.New("these are a client's credentials")

func (handshakeDone) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (handshakeDone) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errClientOnly
}

func (handshakeDone) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (h handshakeDone) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is deprecated by grpc-go, and part of its interface.
func (handshakeDone) OverrideServerName(string) error { return errClientOnly }
