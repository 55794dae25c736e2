package tcp

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
)

// The numbers of docs/wire-tcp.md.
const (
	lengthBytes    = 4
	frameHeadBytes = 1 + lengthBytes

	// preamble is "WLB1". As a length it would exceed 1.4 GB, more than any message may have.
	preamble = 0x57_4C_42_31
	// failedBit in the length of a plain answer says that the answer is a status.
	failedBit = 1 << 31

	kindPlain   = 0 // in the plain framing, whose frames have no kind
	kindHead    = 'H'
	kindMessage = 'M'
	kindEnd     = 'E'

	// maxHeadBytes bounds head and end frames. Their metadata becomes a map, which takes several
	// times the bytes that arrived.
	maxHeadBytes = 1 << 20
)

var marshalling = proto.MarshalOptions{UseCachedSize: true}

// appendFrame appends a message's frame of the kind. On an error dst holds nothing new.
func appendFrame(dst []byte, kind byte, message any) ([]byte, error) {
	m, err := stack.ProtoMessage(name, message)
	if err != nil {
		return dst, err
	}
	size := proto.Size(m)
	if size > stack.MaxMessageBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "message of %d bytes, the limit is %d", size, stack.MaxMessageBytes)
	}
	frame := slices.Grow(dst, frameHeadBytes+size)
	if kind != kindPlain {
		frame = append(frame, kind)
	}
	frame = binary.BigEndian.AppendUint32(frame, uint32(size))
	if frame, err = marshalling.MarshalAppend(frame, m); err != nil {
		return dst, status.Errorf(codes.Internal, "marshal %T: %v", m, err)
	}
	return frame, nil
}

// unmarshal replaces the content of message. It copies, so that body can be used again.
func unmarshal(body []byte, message any) error {
	m, err := stack.ProtoMessage(name, message)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return status.Errorf(codes.Internal, "unmarshal %T: %v", m, err)
	}
	return nil
}

// appendPlainFailure appends the plain answer of a call that failed.
func appendPlainFailure(dst []byte, failure *status.Status) []byte {
	encoded := encodeStatus(failure)
	dst = binary.BigEndian.AppendUint32(dst, failedBit|uint32(len(encoded)))
	return append(dst, encoded...)
}

// A callHead holds the parts of a call that a client sends before its messages.
type callHead struct {
	method   string
	timeout  time.Duration // 0: none
	metadata metadata.MD
}

// appendCall appends the preamble and the head frame that begin a call.
func appendCall(dst []byte, head callHead) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32(dst, preamble)
	frame, at := openFrame(frame, kindHead)
	frame = binary.BigEndian.AppendUint64(frame, uint64(head.timeout))
	frame = appendString(frame, head.method)
	frame = appendMetadata(frame, head.metadata)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "metadata of %d bytes, the limit is %d", size, maxHeadBytes)
	}
	return frame, nil
}

// parseCall reads the body of a client's head frame.
func parseCall(body []byte) (callHead, error) {
	if len(body) < 8 {
		return callHead{}, errMalformed("a head frame of %d bytes", len(body))
	}
	timeout := binary.BigEndian.Uint64(body)
	if timeout > math.MaxInt64 {
		return callHead{}, errMalformed("a timeout of %d ns", timeout)
	}
	method, rest, err := cutString(body[8:])
	if err != nil {
		return callHead{}, err
	}
	md, err := parseMetadata(rest)
	return callHead{method: method, timeout: time.Duration(timeout), metadata: md}, err
}

// appendHead appends the head frame of an answer.
func appendHead(dst []byte, md metadata.MD) ([]byte, error) {
	frame, at := openFrame(dst, kindHead)
	frame = appendMetadata(frame, md)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "header metadata of %d bytes, the limit is %d", size, maxHeadBytes)
	}
	return frame, nil
}

// appendHalfClose appends the end frame of a client.
func appendHalfClose(dst []byte) []byte {
	return append(dst, kindEnd, 0, 0, 0, 0)
}

// appendEnd appends a server's end frame. A trailer that is too large becomes an error status.
func appendEnd(dst []byte, end *status.Status, trailer metadata.MD) []byte {
	frame, at := openFrame(dst, kindEnd)
	var encoded []byte
	if end.Code() != codes.OK {
		encoded = encodeStatus(end)
	}
	frame = appendString(frame, encoded)
	frame = appendMetadata(frame, trailer)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return appendEnd(dst, status.Newf(codes.ResourceExhausted, "end frame of %d bytes, the limit is %d", size, maxHeadBytes), nil)
	}
	return frame
}

// parseEnd reads the body of a server's end frame.
func parseEnd(body []byte) (*status.Status, metadata.MD, error) {
	encoded, rest, err := cutString(body)
	if err != nil {
		return nil, nil, err
	}
	trailer, err := parseMetadata(rest)
	if err != nil {
		return nil, nil, err
	}
	if encoded == "" {
		return nil, trailer, nil
	}
	end, err := parseStatus([]byte(encoded))
	return end, trailer, err
}

// encodeStatus never fails. A status that cannot be encoded or is too large loses its details and
// part of its message.
func encodeStatus(s *status.Status) []byte {
	whole := s.Proto()
	whole.Message = strings.ToValidUTF8(whole.GetMessage(), "\uFFFD")
	encoded, err := proto.Marshal(whole)
	if err == nil && len(encoded) <= maxHeadBytes/2 {
		return encoded
	}
	const enough = 4 << 10
	message := whole.GetMessage()
	message = strings.ToValidUTF8(message[:min(len(message), enough)], "")
	encoded, err = proto.Marshal(&statuspb.Status{Code: whole.GetCode(), Message: message})
	if err != nil {
		panic("tcp: a status of valid text did not marshal: " + err.Error())
	}
	return encoded
}

func parseStatus(encoded []byte) (*status.Status, error) {
	var s statuspb.Status
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return nil, errMalformed("a status that cannot be decoded: %v", err)
	}
	if s.GetCode() == int32(codes.OK) {
		return nil, errMalformed("a failure with the status OK")
	}
	return status.FromProto(&s), nil
}

// openFrame appends a frame's kind and room for its length, which closeFrame sets.
func openFrame(dst []byte, kind byte) (frame []byte, at int) {
	return append(dst, kind, 0, 0, 0, 0), len(dst) + 1
}

func closeFrame(frame []byte, at int) (sizeBytes int) {
	sizeBytes = len(frame) - at - lengthBytes
	binary.BigEndian.PutUint32(frame[at:], uint32(sizeBytes))
	return sizeBytes
}

func appendString[S string | []byte](dst []byte, s S) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func cutString(b []byte) (s string, rest []byte, err error) {
	if len(b) < lengthBytes {
		return "", nil, errMalformed("%d bytes where a string's length belongs", len(b))
	}
	size := binary.BigEndian.Uint32(b)
	b = b[lengthBytes:]
	if uint64(size) > uint64(len(b)) {
		return "", nil, errMalformed("a string of %d bytes in a frame that has %d left", size, len(b))
	}
	return string(b[:size]), b[size:], nil
}

func appendMetadata(dst []byte, md metadata.MD) []byte {
	for key, values := range md {
		for _, value := range values {
			dst = appendString(dst, key)
			dst = appendString(dst, value)
		}
	}
	return dst
}

// parseMetadata reads keys and values up to the end of b. It returns nil for an empty b.
func parseMetadata(b []byte) (metadata.MD, error) {
	var md metadata.MD
	for len(b) > 0 {
		key, rest, err := cutString(b)
		if err != nil {
			return nil, err
		}
		value, rest, err := cutString(rest)
		if err != nil {
			return nil, err
		}
		if md == nil {
			md = metadata.MD{}
		}
		md.Append(key, value) // in lower case
		b = rest
	}
	return md, nil
}

// errMalformed says that the peer broke the rules of docs/wire-tcp.md. The rest of the connection
// cannot be parsed.
func errMalformed(format string, args ...any) error {
	return status.Errorf(codes.Internal, "the peer broke the framing: "+format, args...)
}
