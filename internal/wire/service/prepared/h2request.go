package prepared

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/h2"
)

// An h2Request is a request as HTTP/2 carries it.
type h2Request struct {
	fields *h2.FixedFields
	body   []byte
	grpc   bool
	head   bool // the answer has no body
}

func encodeHTTP2(d *service.Definition, r *service.Request) (*h2Request, error) {
	if err := checkRequest(d, r); err != nil {
		return nil, err
	}
	fields, agent := pseudoFields(d, r, r.Method), false
	for _, f := range r.Header {
		name := strings.ToLower(f.Name)
		switch name {
		case "host", "content-length", // set from the authority and the body
			"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade": // RFC 9113, section 8.2.2
			continue
		case "user-agent":
			agent = true
		}
		fields = append(fields, hpack.HeaderField{Name: name, Value: f.Value})
	}
	if !agent {
		fields = append(fields, hpack.HeaderField{Name: "user-agent", Value: service.UserAgent})
	}
	if saysLength(r) {
		fields = append(fields, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(r.Body))})
	}
	return &h2Request{fields: h2.NewFixedFields(fields...), body: r.Body, head: r.Method == http.MethodHead}, nil
}

func pseudoFields(d *service.Definition, r *service.Request, method string) []hpack.HeaderField {
	scheme := "http"
	if d.TLS != nil {
		scheme = "https"
	}
	return []hpack.HeaderField{
		{Name: ":method", Value: method},
		{Name: ":scheme", Value: scheme},
		{Name: ":path", Value: r.Path},
		{Name: ":authority", Value: d.Authority},
	}
}

// serverLater is added to the timeout that the server gets, beside a sixteenth of it. The
// server then gives up after this end does, so that late calls fail in one way.
const serverLater = 10 * time.Millisecond

// encodeGRPC encodes a unary call (grpc/grpc, doc/PROTOCOL-HTTP2.md).
func encodeGRPC(d *service.Definition, r *service.Request) (*h2Request, error) {
	post := *r
	post.Method = http.MethodPost
	if err := checkRequest(d, &post); err != nil {
		return nil, err
	}
	fields, agent := pseudoFields(d, r, post.Method), service.UserAgent
	fields = append(fields, hpack.HeaderField{Name: "content-type", Value: "application/grpc"}, hpack.HeaderField{Name: "te", Value: "trailers"})
	if d.Timeout > 0 {
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: grpcTimeout(d.Timeout + d.Timeout/16 + serverLater)})
	}
	for _, f := range r.Header {
		name, value := strings.ToLower(f.Name), f.Value
		switch {
		case name == "user-agent":
			agent = value
			continue
		case name == "te", name == "content-type", name == "host", name == "connection", name == "content-length", name == "grpc-timeout":
			continue
		case strings.HasPrefix(name, "grpc-"):
			return nil, fmt.Errorf("the metadata %q: names with grpc- are gRPC's own", f.Name)
		case strings.HasSuffix(name, "-bin"):
			value = base64.RawStdEncoding.EncodeToString([]byte(value))
		}
		fields = append(fields, hpack.HeaderField{Name: name, Value: value})
	}
	fields = append(fields, hpack.HeaderField{Name: "user-agent", Value: agent})
	var message []byte
	if len(r.Messages) > 0 {
		message = r.Messages[0]
	}
	const flag = 1
	body := binary.BigEndian.AppendUint32(make([]byte, flag, flag+4+len(message)), uint32(len(message)))
	return &h2Request{fields: h2.NewFixedFields(fields...), body: append(body, message...), grpc: true}, nil
}

// grpcTimeout returns the value of the field grpc-timeout: at most 8 digits and a unit.
func grpcTimeout(d time.Duration) string {
	const most = 99_999_999
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Microsecond, "u"}, {time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}} {
		if n := (d + unit.length - 1) / unit.length; n <= most {
			return strconv.FormatInt(int64(n), 10) + unit.name
		}
	}
	return strconv.Itoa(most) + "M"
}
