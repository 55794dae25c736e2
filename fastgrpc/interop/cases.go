package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Case runs one case of the interoperability test. It returns nil on success.
type Case func(ctx context.Context, cc grpc.ClientConnInterface) error

// The sizes that interop-test-descriptions.md prescribes.
const (
	largeRequest  = 271828
	largeResponse = 314159
)

var (
	requestSizes  = []int{27182, 8, 1828, 45904}
	responseSizes = []int32{31415, 9, 2653, 58979}
)

// Cases holds the client's cases by name.
var Cases = map[string]Case{
	"empty_unary":                 emptyUnary,
	"large_unary":                 largeUnary,
	"client_streaming":            clientStreaming,
	"server_streaming":            serverStreaming,
	"ping_pong":                   pingPong,
	"empty_stream":                emptyStream,
	"timeout_on_sleeping_server":  timeoutOnSleepingServer,
	"cancel_after_begin":          cancelAfterBegin,
	"cancel_after_first_response": cancelAfterFirstResponse,
	"status_code_and_message":     statusCodeAndMessage,
	"special_status_message":      specialStatusMessage,
	"custom_metadata":             customMetadata,
	"unimplemented_method":        unimplementedMethod,
	"unimplemented_service":       unimplementedService,
	"pick_first_unary":            pickFirstUnary,
	"orca_per_rpc":                orcaPerRPC,
	"orca_oob":                    orcaOutOfBand,
}

// Names returns the names of the cases in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(Cases)) }

func client(cc grpc.ClientConnInterface) testgrpc.TestServiceClient {
	return testgrpc.NewTestServiceClient(cc)
}

func zeros(n int) *testgrpc.Payload { return &testgrpc.Payload{Body: make([]byte, n)} }

// wantCode returns an error unless err has the code.
func wantCode(err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("got %v, want code %s", status.Convert(err), code)
	}
	return nil
}

func emptyUnary(ctx context.Context, cc grpc.ClientConnInterface) error {
	_, err := client(cc).EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

func largeUnary(ctx context.Context, cc grpc.ClientConnInterface) error {
	return LargeUnary(ctx, cc, largeRequest, largeResponse)
}

// LargeUnary makes the call of large_unary and of the soak cases.
func LargeUnary(ctx context.Context, cc grpc.ClientConnInterface, request, response int, opts ...grpc.CallOption) error {
	out, err := client(cc).UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: int32(response), Payload: zeros(request)}, opts...)
	if err != nil {
		return err
	}
	if got := len(out.GetPayload().GetBody()); got != response {
		return fmt.Errorf("got %d bytes, want %d", got, response)
	}
	return nil
}

func clientStreaming(ctx context.Context, cc grpc.ClientConnInterface) error {
	s, err := client(cc).StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	sum := 0
	for _, size := range requestSizes {
		if err := s.Send(&testgrpc.StreamingInputCallRequest{Payload: zeros(size)}); err != nil {
			return err
		}
		sum += size
	}
	out, err := s.CloseAndRecv()
	if err != nil {
		return err
	}
	if int(out.GetAggregatedPayloadSize()) != sum {
		return fmt.Errorf("server counted %d bytes of %d", out.GetAggregatedPayloadSize(), sum)
	}
	return nil
}

func ask(sizes ...int32) *testgrpc.StreamingOutputCallRequest {
	in := &testgrpc.StreamingOutputCallRequest{}
	for _, size := range sizes {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: size})
	}
	return in
}

type outputReceiver interface {
	Recv() (*testgrpc.StreamingOutputCallResponse, error)
}

func expect(s outputReceiver, size int32) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	if got := len(m.GetPayload().GetBody()); got != int(size) {
		return fmt.Errorf("got %d bytes, want %d", got, size)
	}
	return nil
}

func expectEnd(s outputReceiver) error {
	switch _, err := s.Recv(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("stream ended with: %w", err)
	}
	return errors.New("stream has more messages than asked for")
}

func serverStreaming(ctx context.Context, cc grpc.ClientConnInterface) error {
	s, err := client(cc).StreamingOutputCall(ctx, ask(responseSizes...))
	if err != nil {
		return err
	}
	for _, size := range responseSizes {
		if err := expect(s, size); err != nil {
			return err
		}
	}
	return expectEnd(s)
}

func pingPong(ctx context.Context, cc grpc.ClientConnInterface) error {
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for i, size := range requestSizes {
		in := ask(responseSizes[i])
		in.Payload = zeros(size)
		if err := s.Send(in); err != nil {
			return err
		}
		if err := expect(s, responseSizes[i]); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return expectEnd(s)
}

func emptyStream(ctx context.Context, cc grpc.ClientConnInterface) error {
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return expectEnd(s)
}

func timeoutOnSleepingServer(ctx context.Context, cc grpc.ClientConnInterface) error {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return wantCode(err, codes.DeadlineExceeded)
	}
	if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: zeros(requestSizes[0])}); err != nil && !errors.Is(err, io.EOF) {
		return wantCode(err, codes.DeadlineExceeded)
	}
	_, err = s.Recv()
	return wantCode(err, codes.DeadlineExceeded)
}

func cancelAfterBegin(ctx context.Context, cc grpc.ClientConnInterface) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "key1", "value1", "key2", "value2"))
	defer cancel()
	s, err := client(cc).StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	cancel()
	_, err = s.CloseAndRecv()
	return wantCode(err, codes.Canceled)
}

func cancelAfterFirstResponse(ctx context.Context, cc grpc.ClientConnInterface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	in := ask(responseSizes[0])
	in.Payload = zeros(requestSizes[0])
	if err := s.Send(in); err != nil {
		return err
	}
	if err := expect(s, responseSizes[0]); err != nil {
		return err
	}
	cancel()
	_, err = s.Recv()
	return wantCode(err, codes.Canceled)
}

func echoedStatus(ctx context.Context, cc grpc.ClientConnInterface, text string, stream bool) error {
	st := &testgrpc.EchoStatus{Code: int32(codes.Unknown), Message: text}
	_, err := client(cc).UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: st})
	if got := status.Convert(err); got.Code() != codes.Unknown || got.Message() != text {
		return fmt.Errorf("unary: got %v, want Unknown %q", got, text)
	}
	if !stream {
		return nil
	}
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: st}); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	_, err = s.Recv()
	if got := status.Convert(err); got.Code() != codes.Unknown || got.Message() != text {
		return fmt.Errorf("stream: got %v, want Unknown %q", got, text)
	}
	return nil
}

func statusCodeAndMessage(ctx context.Context, cc grpc.ClientConnInterface) error {
	return echoedStatus(ctx, cc, "test status message", true)
}

func specialStatusMessage(ctx context.Context, cc grpc.ClientConnInterface) error {
	return echoedStatus(ctx, cc, "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n", false)
}

const (
	initialValue  = "test_initial_metadata_value"
	trailingValue = "\x0a\x0b\x0a\x0b\x0a\x0b"
)

func echoedMetadata(header, trailer metadata.MD) error {
	if got := header[initialKey]; len(got) != 1 || got[0] != initialValue {
		return fmt.Errorf("header has %q", got)
	}
	if got := trailer[trailingKey]; len(got) != 1 || got[0] != trailingValue {
		return fmt.Errorf("trailer has %q", got)
	}
	return nil
}

func customMetadata(ctx context.Context, cc grpc.ClientConnInterface) error {
	ctx = metadata.AppendToOutgoingContext(ctx, initialKey, initialValue, trailingKey, trailingValue)
	var header, trailer metadata.MD
	if err := LargeUnary(ctx, cc, 1, 1, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		return err
	}
	if err := echoedMetadata(header, trailer); err != nil {
		return fmt.Errorf("unary: %w", err)
	}
	s, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(ask(1)); err != nil {
		return err
	}
	if header, err = s.Header(); err != nil {
		return err
	}
	if err := expect(s, 1); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := expectEnd(s); err != nil {
		return err
	}
	if err := echoedMetadata(header, s.Trailer()); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}

func unimplementedMethod(ctx context.Context, cc grpc.ClientConnInterface) error {
	err := cc.Invoke(ctx, "/grpc.testing.TestService/UnimplementedMethod", &testgrpc.Empty{}, &testgrpc.Empty{})
	return wantCode(err, codes.Unimplemented)
}

func unimplementedService(ctx context.Context, cc grpc.ClientConnInterface) error {
	_, err := testgrpc.NewUnimplementedServiceClient(cc).UnimplementedCall(ctx, &testgrpc.Empty{})
	return wantCode(err, codes.Unimplemented)
}

func pickFirstUnary(ctx context.Context, cc grpc.ClientConnInterface) error {
	const calls = 100
	server := ""
	for range calls {
		var p peer.Peer
		if err := LargeUnary(ctx, cc, 1, 1, grpc.Peer(&p)); err != nil {
			return err
		}
		if addr := p.Addr.String(); server == "" {
			server = addr
		} else if addr != server {
			return fmt.Errorf("calls went to %s and %s", server, addr)
		}
	}
	return nil
}
