package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/call/wire"
)

// CheckCall returns an error if the call's context has ended or an option would have no effect. A
// wire other than gRPC supports only options that return an answer's metadata.
func CheckCall(ctx context.Context, name string, options []grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	for _, option := range options {
		switch option.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.StaticMethodCallOption, grpc.FailFastCallOption:
		default:
			return status.Errorf(codes.Unimplemented, "%s: the call option %T is not supported on this wire", name, option)
		}
	}
	return nil
}

// ReportMetadata stores an answer's metadata in the variables that a call's options name.
func ReportMetadata(options []grpc.CallOption, header, trailer func() metadata.MD) {
	for _, option := range options {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = header()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = trailer()
		}
	}
}

// ProtoMessage returns a call's message as a protobuf message, or an error.
func ProtoMessage(name string, message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%s: the message has the type %T, which is not a protobuf message", name, message)
	}
	return m, nil
}

// ReadBody reads an HTTP body of at most limit bytes. It allocates memory only for bytes that
// arrive. If the body is larger, ReadBody returns the error from tooLarge, and, if w is set,
// net/http closes the connection.
func ReadBody(w http.ResponseWriter, body io.ReadCloser, limit int64, tooLarge func(sizeBytes int64) error) ([]byte, error) {
	read, err := io.ReadAll(http.MaxBytesReader(w, body, limit))
	var excess *http.MaxBytesError
	if errors.As(err, &excess) {
		return nil, tooLarge(excess.Limit + 1)
	}
	return read, err
}

// AnswerHTTP sends an HTTP answer whose whole body is given.
func AnswerHTTP(w http.ResponseWriter, httpStatus int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // without it net/http sends a long body in chunks
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // ignore errors: the client has disconnected
}

// IsMedia reports whether a Content-Type header names the media type.
func IsMedia(contentType, want string) bool {
	if contentType == want {
		return true // wirelab's own clients and servers send exactly this text
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == want
}

// PutMetadata adds metadata as header fields with the given prefix. Binary values become base64.
// Like gRPC it drops reserved keys; isReserved gets the canonical name of a field. If isReserved is
// nil, no key is reserved.
func PutMetadata(header http.Header, prefix string, md metadata.MD, isReserved func(field string) bool) {
	for key, values := range md {
		field := textproto.CanonicalMIMEHeaderKey(key)
		if isReserved != nil && isReserved(field) {
			continue
		}
		for _, value := range values {
			if strings.HasSuffix(key, wire.BinarySuffix) {
				value = wire.EncodeBinary(value)
			}
			header[prefix+field] = append(header[prefix+field], value)
		}
	}
}

// MetadataIn returns the metadata that PutMetadata wrote, or nil. It drops invalid base64.
func MetadataIn(header http.Header, prefix string, isReserved func(field string) bool) metadata.MD {
	var md metadata.MD
	for name, values := range header {
		field, ours := strings.CutPrefix(name, prefix)
		key := strings.ToLower(field)
		if !ours || isReserved != nil && isReserved(field) || !wire.IsKey(key) {
			continue
		}
		if strings.HasSuffix(key, wire.BinarySuffix) {
			values = decodeBinary(values)
		}
		if md == nil {
			md = metadata.MD{}
		}
		md[key] = append(md[key], values...)
	}
	return md
}

// decodeBinary also splits values at commas, because HTTP proxies may join repeated fields.
func decodeBinary(values []string) []string {
	decoded := make([]string, 0, len(values))
	for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if raw, err := wire.DecodeBinary(strings.TrimSpace(value)); err == nil {
			decoded = append(decoded, raw)
		}
	}
	return decoded
}

// ServerCall holds the metadata of one call's answer. Several goroutines may set it. It implements
// grpc.ServerTransportStream for answers that are sent whole. Streams override its SendHeader.
type ServerCall struct {
	FullMethod string

	mu              sync.Mutex
	headerSent      bool // the header was sent or can no longer change
	header, trailer metadata.MD
}

var _ grpc.ServerTransportStream = (*ServerCall)(nil)

var errHeaderSent = status.Error(codes.Internal, "the header was already sent")

// Method implements grpc.ServerTransportStream.
func (c *ServerCall) Method() string { return c.FullMethod }

// SetHeader implements grpc.ServerTransportStream.
func (c *ServerCall) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headerSent {
		return errHeaderSent
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream. The header is sent later, with the answer.
func (c *ServerCall) SendHeader(md metadata.MD) error {
	err := c.SetHeader(md)
	c.TakeHeader()
	return err
}

// SetTrailer implements grpc.ServerTransportStream.
func (c *ServerCall) SetTrailer(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
	return nil
}

// TakeHeader returns the header to send, and prevents later changes. Only its first call returns
// first as true.
func (c *ServerCall) TakeHeader() (header metadata.MD, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, c.headerSent = !c.headerSent, true
	return c.header, first
}

// Trailer returns the trailer metadata set so far.
func (c *ServerCall) Trailer() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trailer
}

// Method is one operation of a server.
type Method struct {
	FullName string // "/package.Service/Operation", as gRPC writes it
	Kind     Kind
	Unary    *grpc.MethodDesc // nil for streams
	Stream   *grpc.StreamDesc // nil for unary methods
	Service  any              // the registered implementation
}

// Name returns the operation's name without its service.
func (m *Method) Name() string {
	if m.Unary != nil {
		return m.Unary.MethodName
	}
	return m.Stream.StreamName
}

// ClientStreams reports whether the client sends a stream.
func (m *Method) ClientStreams() bool { return m.Stream != nil && m.Stream.ClientStreams }

// ServerStreams reports whether the server sends a stream.
func (m *Method) ServerStreams() bool { return m.Stream != nil && m.Stream.ServerStreams }

// Methods holds a server's registered methods. It does not change after Listen.
type Methods struct {
	byName map[string]*Method
	order  []*Method
	faults []error
}

// RegisterService implements grpc.ServiceRegistrar. Err reports the errors later.
func (m *Methods) RegisterService(desc *grpc.ServiceDesc, service any) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); service == nil || !reflect.TypeOf(service).Implements(want) {
		m.faults = append(m.faults, fmt.Errorf("service %s: %T does not implement %s", desc.ServiceName, service, want))
		return
	}
	for i := range desc.Methods {
		m.add(desc.ServiceName, &Method{Kind: Unary, Unary: &desc.Methods[i], Service: service})
	}
	for i := range desc.Streams {
		m.add(desc.ServiceName, &Method{Kind: KindOf(&desc.Streams[i]), Stream: &desc.Streams[i], Service: service})
	}
}

func (m *Methods) add(service string, method *Method) {
	method.FullName = "/" + service + "/" + method.Name()
	if _, twice := m.byName[method.FullName]; twice {
		m.faults = append(m.faults, fmt.Errorf("operation %s is registered twice: register it once", method.FullName))
		return
	}
	if m.byName == nil {
		m.byName = map[string]*Method{}
	}
	m.byName[method.FullName] = method
	m.order = append(m.order, method)
}

// GetServiceInfo implements reflection.ServiceInfoProvider. The result holds only the services'
// names.
func (m *Methods) GetServiceInfo() map[string]grpc.ServiceInfo {
	services := map[string]grpc.ServiceInfo{}
	for _, method := range m.order {
		services[strings.Split(method.FullName, "/")[1]] = grpc.ServiceInfo{}
	}
	return services
}

// Err returns the errors of all registrations.
func (m *Methods) Err() error { return errors.Join(m.faults...) }

// Find returns the method with the full name, or nil.
func (m *Methods) Find(fullName string) *Method { return m.byName[fullName] }

// InOrder returns the methods in the order of their registration.
func (m *Methods) InOrder() []*Method { return m.order }
