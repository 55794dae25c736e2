package schema

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	alphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// serve starts a server of grpc-go and connects to it.
func serve(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(options...)
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// services lists the services of testdata. Reflection only wants their names.
type services struct{}

func (services) GetServiceInfo() map[string]grpc.ServiceInfo {
	return map[string]grpc.ServiceInfo{"ledger.v1.Ledger": {}, "shop.v1.Shop": {}, "undescribed.Service": {}}
}

func options(t *testing.T) reflection.ServerOptions {
	return reflection.ServerOptions{Services: services{}, DescriptorResolver: linked(t, descriptors(t))}
}

// onlyOneFile answers each question with one file, and leaves its imports to be asked for.
type onlyOneFile struct {
	reflectionpb.UnimplementedServerReflectionServer
	files   map[string]*descriptorpb.FileDescriptorProto // by name and by service
	endless int                                          // number of files per answer, where each file imports the next; 0 means that the files end
}

func (s *onlyOneFile) ServerReflectionInfo(stream reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
	for n := 0; ; n++ {
		question, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has asked enough
		}
		file := s.files[question.GetFileByFilename()+question.GetFileContainingSymbol()]
		all := []*descriptorpb.FileDescriptorProto{file}
		for i := range s.endless {
			at := n*s.endless + i
			all = append(all[:i], &descriptorpb.FileDescriptorProto{
				Name: proto.String(strconv.Itoa(at)), Dependency: []string{strconv.Itoa(at + 1)},
			})
		}
		var encoded [][]byte
		for _, file := range all {
			one, err := proto.Marshal(file)
			if err != nil {
				return err
			}
			encoded = append(encoded, one)
		}
		err = stream.Send(&reflectionpb.ServerReflectionResponse{MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
			FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: encoded},
		}})
		if err != nil {
			return err
		}
	}
}

func oneByOne(t *testing.T) *onlyOneFile {
	s := &onlyOneFile{files: map[string]*descriptorpb.FileDescriptorProto{}}
	for _, file := range descriptors(t).File {
		s.files[file.GetName()] = file
		for _, service := range file.Service {
			s.files[file.GetPackage()+"."+service.GetName()] = file
		}
	}
	return s
}

func TestServersAreAsked(t *testing.T) {
	for name, register := range map[string]func(*grpc.Server){
		"v1": func(s *grpc.Server) {
			reflectionpb.RegisterServerReflectionServer(s, reflection.NewServerV1(options(t)))
		},
		"v1alpha": func(s *grpc.Server) { alphapb.RegisterServerReflectionServer(s, reflection.NewServer(options(t))) },
		"one by one": func(s *grpc.Server) {
			reflectionpb.RegisterServerReflectionServer(s, oneByOne(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := Source{Reflection: serve(t, register), Call: "ledger.v1.Ledger/BookAll"}
			m, err := Find(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			if m.Stream != (Stream{Client: true}) {
				t.Errorf("%+v", m.Stream)
			}
			text := []byte(`{"order": {"placedAt": "2026-01-02T03:04:05Z", "lines": [{"price": {"cents": 3}}]}}`)
			want := must(ledger(t, source.Call).Encode(text))(t)
			if got := must(m.Encode(text))(t); string(got[0]) != string(want[0]) {
				t.Errorf("%x, want %x", got, want)
			}
			if name == "one by one" {
				return // it has no list
			}
			source.Data = []byte(`{"cause": {"@type": "type.googleapis.com/extra.v1.Note", "text": "why"}}`)
			if _, err := must(Find(t.Context(), source))(t).Encode(source.Data); err != nil {
				t.Error(err)
			}
			source.Call = "ledger.v1.Ledger/BokAll"
			if _, err := Find(t.Context(), source); err == nil || !strings.Contains(err.Error(), "did you mean ledger.v1.Ledger/BookAll?") {
				t.Error(err)
			}
			source.Call, source.Data = "Shop/Watch", nil
			if _, err := Find(t.Context(), source); err == nil || !strings.Contains(err.Error(), "did you mean shop.v1.Shop/Watch?") {
				t.Error(err)
			}
			source.Call = ""
			if _, err := Find(t.Context(), source); err == nil || !strings.Contains(err.Error(), "shop.v1.Shop/Watch") || !strings.Contains(err.Error(), "ledger.v1.Ledger/Talk") {
				t.Error(err)
			}
		})
	}
}

func TestMetadataIsSentWithTheQuestions(t *testing.T) {
	guard := grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(stream.Context()); len(md.Get("token")) == 0 {
			return status.Error(codes.Unauthenticated, "no token")
		}
		return handler(srv, stream)
	})
	conn := serve(t, func(s *grpc.Server) {
		reflectionpb.RegisterServerReflectionServer(s, reflection.NewServerV1(options(t)))
	}, guard)
	source := Source{Reflection: conn, Call: "shop.v1.Shop/Echo"}
	if _, err := Find(t.Context(), source); err == nil || !strings.Contains(err.Error(), "refuses reflection") || !strings.Contains(err.Error(), "no token") {
		t.Error(err)
	}
	source.Metadata = metadata.Pairs("token", "1")
	if _, err := Find(t.Context(), source); err != nil {
		t.Error(err)
	}
}

func TestServersThatCannotBeAsked(t *testing.T) {
	without := serve(t, func(*grpc.Server) {})
	endless := serve(t, func(s *grpc.Server) { reflectionpb.RegisterServerReflectionServer(s, &onlyOneFile{endless: 500}) })
	gone := must(grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer gone.Close()
	lost := oneByOne(t)
	delete(lost.files, "money.proto")
	lacking := serve(t, func(s *grpc.Server) { reflectionpb.RegisterServerReflectionServer(s, lost) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		says string
		conn grpc.ClientConnInterface
		ctx  context.Context
	}{
		{"the server has no reflection: name the .proto with --proto or --protoset", without, t.Context()},
		{"more than 64 MiB or 10000 files", endless, t.Context()},
		{"connection refused", gone, t.Context()},
		{"the server does not describe money.proto, which shop.proto imports", lacking, t.Context()},
		{"canceled", without, ended},
	} {
		if _, err := Find(c.ctx, Source{Reflection: c.conn, Call: "shop.v1.Shop/Echo"}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}
