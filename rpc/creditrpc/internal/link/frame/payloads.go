package frame

import "fmt"

// Version is the version of the wire format.
const Version = 1

// magic begins the first frame's payload. Peers of other protocols do not send it.
const magic = "CRPC"

// Settings holds the content of a Hello.
type Settings struct {
	Version    uint64
	Window     uint64 // bytes that the peer may have under way on the connection
	PerStream  uint64 // and on each stream, from its beginning
	Calls      uint64 // that the peer may begin; 0 from clients
	MaxMessage uint64 // the longest message that is taken
	MaxMeta    uint64 // and the most metadata
}

// numbers are the settings in the order of their keys on the wire, which begin with 1.
func (s *Settings) numbers() [5]*uint64 {
	return [...]*uint64{&s.Window, &s.PerStream, &s.Calls, &s.MaxMessage, &s.MaxMeta}
}

// AppendHello appends a whole Hello frame.
func AppendHello(to []byte, s Settings) []byte {
	payload := AppendNumber([]byte(magic), s.Version)
	for i, value := range s.numbers() {
		payload = AppendNumber(AppendNumber(payload, uint64(i)+1), *value)
	}
	return append(Head{Length: len(payload), Type: Hello}.Append(to), payload...)
}

// ReadHello reads the payload of a Hello. Unknown settings are ignored.
func ReadHello(payload []byte) (s Settings, err error) {
	if len(payload) < len(magic) || string(payload[:len(magic)]) != magic {
		return s, fmt.Errorf("%w: the peer does not speak creditrpc", ErrMalformed)
	}
	r := Read(payload[len(magic):])
	if s.Version = r.Number(); s.Version != Version {
		return s, fmt.Errorf("%w: the peer speaks version %d of creditrpc, and this end %d", ErrMalformed, s.Version, Version)
	}
	for !r.Done() {
		key, value := r.Number(), r.Number()
		if known := s.numbers(); key >= 1 && key <= uint64(len(known)) {
			*known[key-1] = value
		}
	}
	return s, r.Err()
}

// A Begin is the part of a Request before its message.
type Begin struct {
	Method  uint64 // by the order in which Method frames named them
	Timeout uint64 // in microseconds, counted from its arrival; 0: none
	Meta    []byte
}

// Append appends the payload's beginning.
func (b Begin) Append(to []byte) []byte {
	return AppendBytes(AppendNumber(AppendNumber(to, b.Method), b.Timeout), b.Meta)
}

// ReadBegin reads a Begin. The rest of the reader is the message, or its beginning.
func ReadBegin(r *Reader) Begin {
	return Begin{Method: r.Number(), Timeout: r.Number(), Meta: r.Bytes()}
}

// An Ending is the payload of a Status: the end of a call.
type Ending struct {
	Code    uint64
	Message []byte
	Details []byte // a google.rpc.Status, where there are details
	Meta    []byte // the trailer
}

// Append appends the payload.
func (e Ending) Append(to []byte) []byte {
	return append(AppendBytes(AppendBytes(AppendNumber(to, e.Code), e.Message), e.Details), e.Meta...)
}

// ReadEnding reads the payload of a Status.
func ReadEnding(payload []byte) (Ending, error) {
	r := Read(payload)
	return Ending{Code: r.Number(), Message: r.Bytes(), Details: r.Bytes(), Meta: r.Rest()}, r.Err()
}

// A Grant is the payload of a Credit, for the connection or for a stream, which has no requests.
type Grant struct{ Bytes, Requests uint64 }

// AppendGrant appends a whole Credit frame.
func AppendGrant(to []byte, stream uint32, g Grant) []byte {
	var number [20]byte
	payload := AppendNumber(AppendNumber(number[:0], g.Bytes), g.Requests)
	return append(Head{Length: len(payload), Type: Credit, Stream: stream}.Append(to), payload...)
}

// ReadGrant reads the payload of a Credit.
func ReadGrant(payload []byte) (Grant, error) {
	r := Read(payload)
	g := Grant{r.Number(), r.Number()}
	if g.Bytes > MaxGrant || g.Requests > MaxGrant {
		return g, fmt.Errorf("%w: a grant of %d bytes and %d requests", ErrMalformed, g.Bytes, g.Requests)
	}
	return g, r.Err()
}

// MaxGrant bounds a grant. It keeps sums of grants from overflowing.
const MaxGrant = 1 << 40

// AppendMeta appends a pair of metadata.
func AppendMeta(to []byte, key, value string) []byte { return AppendBytes(AppendBytes(to, key), value) }

// EachMeta calls f with each pair of metadata.
func EachMeta(meta []byte, f func(key, value []byte)) error {
	r := Read(meta)
	for !r.Done() {
		key, value := r.Bytes(), r.Bytes()
		if err := r.Err(); err != nil {
			return err
		}
		f(key, value)
	}
	return r.Err()
}
