package creditrpc

import (
	"bytes"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// encode marshals a message into a new buffer. As in grpc-go, nil is an empty message.
func encode(v any, limit int) (*batchio.Buffer, error) {
	m, err := measure(v, limit)
	if err != nil {
		return nil, err
	}
	return marshal(&m)
}

// measure computes the size of a message.
func measure(v any, limit int) (rpccall.SizedMessage, error) {
	if v == nil {
		v = (*emptypb.Empty)(nil)
	}
	m, err := rpccall.Measure(v, rpccall.MarshalOptions{VT: true})
	switch {
	case err != nil:
		return m, status.Errorf(codes.Internal, "creditrpc: %v", err)
	case m.Size > limit:
		return m, rpccall.TooLargeError("creditrpc: trying to send message", m.Size, limit)
	}
	return m, nil
}

func marshal(m *rpccall.SizedMessage) (*batchio.Buffer, error) {
	b, err := m.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "creditrpc: %v", err)
	}
	return b, nil
}

// decode unmarshals a message and releases it.
func decode(m *link.Message, v any, limit int) error {
	defer m.Release()
	if n := len(m.Data); n > limit {
		return rpccall.TooLargeError("creditrpc: received message", n, limit)
	}
	return unmarshal(m.Data, v, proto.Unmarshal)
}

// unmarshal unmarshals data into v with read: proto.Unmarshal, or rpccall.UnmarshalAliased.
func unmarshal(data []byte, v any, read func([]byte, proto.Message) error) error {
	into, err := rpccall.Message(v)
	if err == nil {
		err = read(data, into)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "creditrpc: unmarshal: %v", err)
	}
	return nil
}

// appendMeta encodes metadata.
func appendMeta(md metadata.MD) (to []byte) {
	for key, values := range md {
		for _, value := range values {
			to = frame.AppendMeta(to, key, value)
		}
	}
	return to
}

// readMeta decodes metadata. It stops at a malformed key or value.
func readMeta(meta []byte) metadata.MD {
	if len(meta) == 0 {
		return nil
	}
	md := metadata.MD{}
	_ = frame.EachMeta(meta, func(key, value []byte) {
		md[string(key)] = append(md[string(key)], string(value))
	})
	return md
}

// checkMeta returns an error if the peer does not accept the metadata.
func checkMeta(md metadata.MD, most int) error {
	size := 0
	for key, values := range md {
		if key == "" {
			return status.Error(codes.Internal, "creditrpc: metadata with an empty key")
		}
		for _, value := range values {
			size += len(key) + len(value) + 2*maxVarintLen
		}
	}
	if size > most {
		return status.Errorf(codes.ResourceExhausted, "creditrpc: metadata may take %d bytes on the wire, but the peer allows %d", size, most)
	}
	return nil
}

// maxVarintLen is the largest size of a varint that holds a length, in bytes.
const maxVarintLen = 5

// newEnding encodes a status. If the frame would be longer than the client accepts, newEnding omits
// the details and shortens the text. Otherwise the client would close the connection.
func newEnding(st *status.Status, trailer metadata.MD) frame.Ending {
	const most = frame.MaxOtherPayload - 3*maxVarintLen
	e := frame.Ending{Code: uint64(st.Code()), Message: []byte(st.Message()), Meta: appendMeta(trailer)}
	if !utf8.Valid(e.Message) {
		e.Message = []byte(string([]rune(st.Message()))) // replaces invalid UTF-8, as grpc-go does
	}
	if len(e.Message) > most {
		e.Message = bytes.ToValidUTF8(e.Message[:most], nil)
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		e.Details, _ = proto.Marshal(p) // a google.rpc.Status can always be encoded
	}
	if len(e.Message)+len(e.Details) > most {
		e.Details = nil
	}
	return e
}

// statusOf decodes a status.
func statusOf(e *frame.Ending) *status.Status {
	if len(e.Details) > 0 {
		p := new(spb.Status)
		if err := proto.Unmarshal(e.Details, p); err == nil && uint64(p.GetCode()) == e.Code {
			return status.FromProto(p)
		}
	}
	if e.Code > math.MaxInt32 {
		return status.New(codes.Unknown, fmt.Sprintf("creditrpc: the server sent the unknown status code %d", e.Code))
	}
	return status.New(codes.Code(e.Code), string(e.Message))
}

// maxTimeout is the longest timeout that sets a deadline. A longer timeout means no deadline.
const maxTimeout = 365 * 24 * time.Hour
