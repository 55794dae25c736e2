package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"wirelab.dev/internal/base/pattern"
)

// The reflection service has two versions with equal messages.
var reflectionPaths = []string{
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

// These limits bound the memory and time that a server's answers can cost.
const (
	maxReflectedBytes    = 64 << 20
	maxReflectedMessage  = 16 << 20
	maxReflectedFiles    = 10_000
	maxReflectionAnswers = 2 * maxReflectedFiles
	maxReflectionTime    = 15 * time.Second
	maxServices          = 100 // number of services that are searched for a suggestion
)

// notGRPCText is a part of grpc-go's error about an answer that is not gRPC.
const notGRPCText = "unexpected HTTP status code"

// ErrNoReflection says that a server does not describe its methods.
var ErrNoReflection = errors.New("the server has no reflection: name the .proto with --proto or --protoset")

// reflectFiles asks a server for the files that a call needs. If the server does not have the
// service, it asks for the files of all services, in order to suggest a call.
func reflectFiles(ctx context.Context, s Source) (*descriptorpb.FileDescriptorSet, error) {
	ctx, cancel := context.WithTimeout(ctx, maxReflectionTime)
	defer cancel() // also ends the stream
	if len(s.Metadata) > 0 {
		had, _ := metadata.FromOutgoingContext(ctx)
		ctx = metadata.NewOutgoingContext(ctx, metadata.Join(had, s.Metadata))
	}
	var err error
	for _, path := range reflectionPaths {
		r := &reflector{ctx: ctx, conn: s.Reflection, path: path, known: map[string]bool{}}
		if err = r.collectFiles(s); err == nil {
			return &r.set, nil
		}
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	switch status.Code(err) {
	case codes.Unimplemented:
		if strings.Contains(status.Convert(err).Message(), notGRPCText) {
			return nil, err
		}
		return nil, ErrNoReflection
	case codes.Unauthenticated, codes.PermissionDenied:
		return nil, fmt.Errorf("the server refuses reflection: %w: send what the server needs with --header, or name the .proto with --proto or --protoset", err)
	case codes.DeadlineExceeded:
		return nil, fmt.Errorf("the server's reflection took more than %s: name the .proto with --proto or --protoset: %w", maxReflectionTime, err)
	}
	return nil, fmt.Errorf("ask the server for its services by reflection: %w", err)
}

// A reflector asks a server through one version of the reflection service.
type reflector struct {
	ctx     context.Context
	conn    grpc.ClientConnInterface
	path    string
	stream  grpc.ClientStream // nil before the first request
	set     descriptorpb.FileDescriptorSet
	known   map[string]bool // names of the files in set
	bytes   int
	answers int
}

func (r *reflector) collectFiles(s Source) error {
	service, _ := splitCall(s.Call)
	found := false
	if service != "" {
		err := r.fetchSymbol(service)
		found = err == nil
		if notFound := (&answerError{}); err != nil && !errors.As(err, &notFound) {
			return err
		}
	}
	if !found {
		if err := r.fetchAllServices(); err != nil {
			return err
		}
	}
	for _, match := range anyType().FindAllSubmatch(s.Data, -1) { // the types in google.protobuf.Any values
		name := string(match[1])
		if strings.HasPrefix(name, "google.protobuf.") {
			continue
		}
		if err := r.fetchSymbol(name); err != nil {
			return fmt.Errorf("find the type %s, which a google.protobuf.Any names: %w", name, err)
		}
	}
	return r.fetchImports()
}

var anyType = pattern.Lazy(`"@type"\s*:\s*"(?:[^"]*/)?([A-Za-z_][\w.]*)"`)

// fetchAllServices asks for the files of all services except reflection itself.
func (r *reflector) fetchAllServices() error {
	answer, err := r.ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"}})
	if err != nil {
		return err
	}
	asked := 0
	for _, service := range answer.GetListServicesResponse().GetService() {
		if strings.HasPrefix(service.GetName(), "grpc.reflection.") || asked == maxServices {
			continue
		}
		asked++
		var unknown *answerError // a server may list services that it cannot describe
		if err := r.fetchSymbol(service.GetName()); err != nil && !errors.As(err, &unknown) {
			return err
		}
	}
	return nil
}

func (r *reflector) fetchSymbol(name string) error {
	return r.fetch(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
}

// fetchImports asks for the imports of all known files, until no import is missing.
func (r *reflector) fetchImports() error {
	for i := 0; i < len(r.set.File); i++ { //nolint:intrange // the loop appends files
		importing := r.set.File[i]
		for _, name := range importing.Dependency {
			if r.known[name] || isStandardPath(name) {
				continue
			}
			err := r.fetch(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
			if err != nil {
				return fmt.Errorf("get %s, which %s imports: %w", name, importing.GetName(), err)
			}
			if !r.known[name] {
				return fmt.Errorf("the server does not describe %s, which %s imports: name the .proto with --proto or --protoset", name, importing.GetName())
			}
		}
	}
	return nil
}

func (r *reflector) fetch(question *reflectionpb.ServerReflectionRequest) error {
	answer, err := r.ask(question)
	if err != nil {
		return err
	}
	for _, encoded := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(encoded, &file); err != nil {
			return fmt.Errorf("decode a file from the server: %w", err)
		}
		if r.known[file.GetName()] {
			continue
		}
		if r.bytes += len(encoded); r.bytes > maxReflectedBytes || len(r.set.File) == maxReflectedFiles {
			return fmt.Errorf("the server's description has more than %d MiB or %d files: name the .proto with --proto or --protoset", maxReflectedBytes>>20, maxReflectedFiles)
		}
		r.known[file.GetName()] = true
		r.set.File = append(r.set.File, &file)
	}
	return nil
}

// An answerError is a server's answer that says that a name is unknown.
type answerError struct{ text string }

func (e *answerError) Error() string { return "the server answered: " + e.text }

func (r *reflector) ask(question *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	if r.answers++; r.answers > maxReflectionAnswers {
		return nil, fmt.Errorf("the server's description is still incomplete after %d questions: name the .proto with --proto or --protoset", maxReflectionAnswers)
	}
	if r.stream == nil {
		stream, err := r.conn.NewStream(r.ctx, &reflectionpb.ServerReflection_ServiceDesc.Streams[0], r.path,
			grpc.MaxCallRecvMsgSize(maxReflectedMessage))
		if err != nil {
			return nil, err
		}
		r.stream = stream
	}
	answer := &reflectionpb.ServerReflectionResponse{}
	// io.EOF means that the stream has ended; RecvMsg returns the stream's error.
	if err := r.stream.SendMsg(question); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := r.stream.RecvMsg(answer); err != nil {
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unimplemented, "the stream ended without an answer")
		}
		return nil, err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return nil, &answerError{fmt.Sprintf("%s (%s)", e.GetErrorMessage(), codes.Code(e.GetErrorCode()))} //nolint:gosec // a code that gRPC does not know is shown as its number
	}
	return answer, nil
}
