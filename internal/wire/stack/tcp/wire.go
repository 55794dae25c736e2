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

// These numbers are defined in docs/wire-tcp.md.
const (
	lengthBytes    = 4
	frameHeadBytes = 1 + lengthBytes

	// preamble is "WLB1". As a length, this number means over 1.4 GB, more than any message may
	// have.
	preamble = 0x57_4C_42_31
	// failedBit in a plain answer's length means that the answer is a status.
	failedBit = 1 << 31

	kindPlain   = 0 // used in the plain framing, where frames have no kind
	kindHead    = 'H'
	kindMessage = 'M'
	kindEnd     = 'E'

	// maxHeadBytes limits head and end frames, because their metadata needs several times as much
	// memory as its encoded bytes.
	maxHeadBytes = 1 << 20
)

var marshalOptions = proto.MarshalOptions{UseCachedSize: true}

// appendFrame appends a frame with a message. If it returns an error, it returns dst unchanged.
func appendFrame(dst []byte, kind byte, message any) ([]byte, error) {
	m, err := stack.ProtoMessage(name, message)
	if err != nil {
		return dst, err
	}
	size := proto.Size(m)
	if size > stack.MaxMessageBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "the message has %d bytes, but the limit is %d bytes", size, stack.MaxMessageBytes)
	}
	frame := slices.Grow(dst, frameHeadBytes+size)
	if kind != kindPlain {
		frame = append(frame, kind)
	}
	frame = binary.BigEndian.AppendUint32(frame, uint32(size))
	if frame, err = marshalOptions.MarshalAppend(frame, m); err != nil {
		return dst, status.Errorf(codes.Internal, "marshal %T: %v", m, err)
	}
	return frame, nil
}

// unmarshal replaces the content of message. It copies the data, so that body can be reused.
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

func appendPlainFailure(dst []byte, failure *status.Status) []byte {
	encoded := encodeStatus(failure)
	dst = binary.BigEndian.AppendUint32(dst, failedBit|uint32(len(encoded)))
	return append(dst, encoded...)
}

// A callHead holds the data that a client sends before a call's messages.
type callHead struct {
	method   string
	timeout  time.Duration // 0 means no timeout
	metadata metadata.MD
}

func appendCall(dst []byte, head callHead) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32(dst, preamble)
	frame, at := openFrame(frame, kindHead)
	frame = binary.BigEndian.AppendUint64(frame, uint64(head.timeout))
	frame = appendString(frame, head.method)
	frame = appendMetadata(frame, head.metadata)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "the metadata has %d bytes, but the limit is %d bytes", size, maxHeadBytes)
	}
	return frame, nil
}

func parseCall(body []byte) (callHead, error) {
	if len(body) < 8 {
		return callHead{}, errMalformed("a head frame has only %d bytes", len(body))
	}
	timeout := binary.BigEndian.Uint64(body)
	if timeout > math.MaxInt64 {
		return callHead{}, errMalformed("the timeout is %d ns, which is too large", timeout)
	}
	method, rest, err := cutString(body[8:])
	if err != nil {
		return callHead{}, err
	}
	md, err := parseMetadata(rest)
	return callHead{method: method, timeout: time.Duration(timeout), metadata: md}, err
}

func appendHead(dst []byte, md metadata.MD) ([]byte, error) {
	frame, at := openFrame(dst, kindHead)
	frame = appendMetadata(frame, md)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return dst, status.Errorf(codes.ResourceExhausted, "the header metadata has %d bytes, but the limit is %d bytes", size, maxHeadBytes)
	}
	return frame, nil
}

func appendHalfClose(dst []byte) []byte {
	return append(dst, kindEnd, 0, 0, 0, 0)
}

// appendEnd appends a server's end frame. If the trailer is too large, the frame has an error code.
func appendEnd(dst []byte, end *status.Status, trailer metadata.MD) []byte {
	frame, at := openFrame(dst, kindEnd)
	var encoded []byte
	if end.Code() != codes.OK {
		encoded = encodeStatus(end)
	}
	frame = appendString(frame, encoded)
	frame = appendMetadata(frame, trailer)
	if size := closeFrame(frame, at); size > maxHeadBytes {
		return appendEnd(dst, status.Newf(codes.ResourceExhausted, "the end frame has %d bytes, but the limit is %d bytes", size, maxHeadBytes), nil)
	}
	return frame
}

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

// encodeStatus encodes a status and never fails. If the status is too large or cannot be encoded,
// encodeStatus leaves out the details and a part of the message.
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
		return nil, errMalformed("decode the status: %v", err)
	}
	if s.GetCode() == int32(codes.OK) {
		return nil, errMalformed("the status of a failed call is OK")
	}
	return status.FromProto(&s), nil
}

// openFrame appends a frame's kind and space for its length. closeFrame sets the length.
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
		return "", nil, errMalformed("a string's length is cut off: the frame has only %d bytes left", len(b))
	}
	size := binary.BigEndian.Uint32(b)
	b = b[lengthBytes:]
	if uint64(size) > uint64(len(b)) {
		return "", nil, errMalformed("a string has %d bytes, but the rest of the frame has %d", size, len(b))
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

// parseMetadata reads all keys and values in b. If b is empty, it returns nil.
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
		md.Append(key, value) // Append converts the key to lower case
		b = rest
	}
	return md, nil
}

// errMalformed returns an error about a peer that broke the rules of docs/wire-tcp.md. After this
// error, no more bytes of the connection can be parsed.
func errMalformed(format string, args ...any) error {
	return status.Errorf(codes.Internal, "the peer broke the framing: "+format, args...)
}
