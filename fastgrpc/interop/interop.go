// Package interop implements gRPC's interoperability test with fastgrpc: the test
// service, and the client's cases under their official names. The programs in client and
// server have grpc-go's flags, so the client can run against any implementation's server
// and the server against any implementation's client.
//
// grpc/doc/interop-test-descriptions.md describes the cases. Those that need Google Cloud
// credentials are left out:
// compute_engine_creds, service_account_creds, jwt_token_creds, per_rpc_creds,
// oauth2_auth_token, google_default_credentials, compute_engine_channel_credentials.
//
// The tests build other projects' programs, pinned in ../peers, and run them against
// fastgrpc: grpc-go's client and server, grpcurl, and h2spec. All of h2spec's generic,
// http2 and hpack suites pass over cleartext and TLS:
//
//	go test ./fastgrpc/interop -run TestConformance
//
// To run h2spec by hand, pass --max-header-length 30000. One case sends a HEADERS frame
// that must exceed the server's SETTINGS_MAX_FRAME_SIZE, 128 KiB here. With the default
// of 4000 bytes per field the frame is too short, so the server rightly answers it.
package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The metadata that the service echoes.
const (
	initialKey  = "x-grpc-test-echo-initial"
	trailingKey = "x-grpc-test-echo-trailing-bin"
)

// Register registers the test service and the ORCA service that reports its load.
func Register(s grpc.ServiceRegistrar) {
	l := new(load)
	testgrpc.RegisterTestServiceServer(s, service{load: l})
	s.RegisterService(l.desc(), l)
}

type service struct {
	testgrpc.UnimplementedTestServiceServer
	load *load
}

func (service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

func (service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md[initialKey]; len(v) > 0 {
		if err := grpc.SendHeader(ctx, metadata.Pairs(initialKey, v[0])); err != nil {
			return nil, err
		}
	}
	if v := md[trailingKey]; len(v) > 0 {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(trailingKey, v[0])); err != nil {
			return nil, err
		}
	}
	if err := requestedStatus(in.GetResponseStatus()); err != nil {
		return nil, err
	}
	p, err := payload(in.GetResponseType(), in.GetResponseSize())
	if err != nil {
		return nil, err
	}
	if r := in.GetOrcaPerQueryReport(); r != nil {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(loadReportKey, string(loadReport(r)))); err != nil {
			return nil, err
		}
	}
	out := &testgrpc.SimpleResponse{Payload: p}
	if in.GetFillServerId() {
		if out.ServerId, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// requestedStatus returns the status that a request asks for, as an error.
func requestedStatus(st *testgrpc.EchoStatus) error {
	if st.GetCode() == 0 {
		return nil
	}
	return status.Error(codes.Code(st.GetCode()), st.GetMessage())
}

func payload(kind testgrpc.PayloadType, size int32) (*testgrpc.Payload, error) {
	if size < 0 || kind != testgrpc.PayloadType_COMPRESSABLE {
		return nil, status.Errorf(codes.InvalidArgument, "payload of type %v and size %d: want COMPRESSABLE and at least 0", kind, size)
	}
	return &testgrpc.Payload{Type: kind, Body: make([]byte, size)}, nil
}

type outputSender interface {
	Send(*testgrpc.StreamingOutputCallResponse) error
	Context() context.Context
}

func sendAll(in *testgrpc.StreamingOutputCallRequest, out outputSender) error {
	for _, p := range in.GetResponseParameters() {
		if us := p.GetIntervalUs(); us > 0 {
			select {
			case <-time.After(time.Duration(us) * time.Microsecond):
			case <-out.Context().Done():
				return out.Context().Err()
			}
		}
		body, err := payload(in.GetResponseType(), p.GetSize())
		if err != nil {
			return err
		}
		if err := out.Send(&testgrpc.StreamingOutputCallResponse{Payload: body}); err != nil {
			return err
		}
	}
	return nil
}

func (service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	return sendAll(in, out)
}

func (service) StreamingInputCall(in grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	sum := 0
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(m.GetPayload().GetBody())
	}
}

func (v service) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	if md, ok := metadata.FromIncomingContext(s.Context()); ok {
		if v := md[initialKey]; len(v) > 0 {
			if err := s.SendHeader(metadata.Pairs(initialKey, v[0])); err != nil {
				return err
			}
		}
		if v := md[trailingKey]; len(v) > 0 {
			s.SetTrailer(metadata.Pairs(trailingKey, v[0]))
		}
	}
	reporting := false
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := requestedStatus(in.GetResponseStatus()); err != nil {
			return err
		}
		if r := in.GetOrcaOobReport(); r != nil {
			if !reporting {
				reporting = true
				v.load.setting.Lock() // until the stream ends, so that no other stream changes the report
				defer v.load.setting.Unlock()
			}
			v.load.set(r)
		}
		if err := sendAll(in, s); err != nil {
			return err
		}
	}
}

func (service) HalfDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	var all []*testgrpc.StreamingOutputCallRequest
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(all) == 1000 {
			return fmt.Errorf("more than %d requests before the half-close", len(all))
		}
		all = append(all, in)
	}
	for _, in := range all {
		if err := sendAll(in, s); err != nil {
			return err
		}
	}
	return nil
}
