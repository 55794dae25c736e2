package sequences

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// act carries out one step and returns what the end saw.
func (st *stage) act(e *end, s step) string {
	if s.do == open || s.do == invoke {
		return string(s.do) + ": " + st.begin(e, s)
	}
	seen, err := st.actOnStream(e, s)
	if err != nil && e.who == server {
		e.last = err
	}
	if seen == "" {
		seen = describeError(err)
	}
	return string(s.do) + ": " + seen
}

func (st *stage) begin(e *end, s step) string {
	method := "/s.S/" + string(st.script.server)
	if s.do == open {
		opened, err := st.cc.NewStream(st.ctx, st.script.client.desc(), method, st.opts...)
		if err == nil {
			e.stream = opened
		}
		return describeError(err)
	}
	out := new(wrapperspb.BytesValue)
	if err := st.cc.Invoke(st.ctx, method, wrapperspb.Bytes(content(s.number, s.size)), out, st.opts...); err != nil {
		return describeError(err)
	}
	return describeMessage(out.GetValue())
}

// maxDrained is more than the messages of any script.
const maxDrained = 30

// actOnStream carries out a step that needs the stream. seen is empty if err says all.
func (st *stage) actOnStream(e *end, s step) (seen string, err error) {
	if e.who == server && e.stream == nil {
		return st.actInUnaryHandler(e, s)
	}
	if e.stream == nil {
		return "there is no stream", nil
	}
	switch s.do {
	case send:
		return "", e.stream.SendMsg(wrapperspb.Bytes(content(s.number, s.size)))
	case receive:
		late := e.who == server && e.ctx.Err() != nil
		in := new(wrapperspb.BytesValue)
		if err = e.stream.RecvMsg(in); err == nil {
			seen = describeMessage(in.GetValue())
		}
		if late && st.isLateResult(err) {
			seen = "a message, EOF or the context's error"
		}
		return seen, err
	case drain:
		in := new(wrapperspb.BytesValue)
		for range maxDrained {
			if err = e.stream.RecvMsg(in); err != nil {
				return seen + describeError(err), nil
			}
			seen += describeMessage(in.GetValue()) + ", "
		}
		return seen + "no end", nil
	case inspect:
		return describeContext(e.stream.Context()), nil
	}
	switch own := e.stream.(type) {
	case grpc.ServerStream:
		return "", actOnServerStream(own, s)
	case grpc.ClientStream:
		return actOnClientStream(own, s)
	}
	return "", fmt.Errorf("%s cannot %s", e.who, s.do)
}

func actOnServerStream(stream grpc.ServerStream, s step) error {
	switch s.do {
	case setHeader:
		return stream.SetHeader(s.md)
	case sendHeader:
		return stream.SendHeader(s.md)
	case setTrailer:
		stream.SetTrailer(s.md)
		return nil
	}
	return fmt.Errorf("a server stream has no %s", s.do)
}

func actOnClientStream(stream grpc.ClientStream, s step) (seen string, err error) {
	switch s.do {
	case closeSend:
		return "", stream.CloseSend()
	case header:
		md, err := stream.Header()
		return describeMetadata(md) + ", " + describeError(err), nil
	case trailer:
		return describeMetadata(stream.Trailer()), nil
	}
	return "", fmt.Errorf("a client stream has no %s", s.do)
}

// isLateResult reports whether grpc-go's RecvMsg may return err to a handler whose context has ended.
// If a message or EOF waits too, RecvMsg chooses by chance. EOF is Internal where a request is missing.
func (st *stage) isLateResult(err error) bool {
	switch code := status.Code(err); {
	case err == nil, errors.Is(err, io.EOF), code == codes.Canceled, code == codes.DeadlineExceeded:
		return true
	default:
		return code == codes.Internal && !st.script.server.desc().ClientStreams
	}
}

func (st *stage) actInUnaryHandler(e *end, s step) (string, error) {
	switch s.do {
	case setHeader:
		return "", grpc.SetHeader(e.ctx, s.md)
	case sendHeader:
		return "", grpc.SendHeader(e.ctx, s.md)
	case setTrailer:
		return "", grpc.SetTrailer(e.ctx, s.md)
	case inspect:
		return describeContext(e.ctx), nil
	}
	return "a unary handler has no " + string(s.do), nil
}

// content returns a message's content, which names the step that sent it.
func content(number, size int) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(number)), size/4+1)[:size]
}

func describeMessage(b []byte) string {
	return fmt.Sprintf("%d bytes %08x", len(b), crc32.ChecksumIEEE(b))
}

// describeError returns an error's kind, and its text if a handler made it.
func describeError(err error) string {
	st, isStatus := status.FromError(err)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, io.EOF):
		return "EOF"
	case !isStatus:
		return "no status"
	}
	text := st.Code().String()
	if strings.Contains(st.Message(), mark) {
		text += fmt.Sprintf(" %q", st.Message())
	}
	for _, detail := range st.Proto().GetDetails() {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(detail)
		text += fmt.Sprintf(" detail %x %v", b, err)
	}
	return text
}

func describeErrors(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, describeError(err))
	}
	return fmt.Sprint(len(errs), texts)
}

// describeMetadata returns the metadata without the library's name and version.
func describeMetadata(md metadata.MD) string {
	var b strings.Builder
	b.WriteString("{")
	for _, key := range slices.Sorted(maps.Keys(md)) {
		values := fmt.Sprintf("%q", md[key])
		switch {
		case key == "user-agent":
			values = "…"
		case len(values) > 80:
			values = fmt.Sprintf("%d bytes %08x", len(values), crc32.ChecksumIEEE([]byte(values)))
		}
		fmt.Fprintf(&b, " %s: %s", key, values)
	}
	return b.String() + " }"
}

func describePeer(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return fmt.Sprintf("peer %v", p.Addr)
	}
	return "no peer"
}

func describeContext(ctx context.Context) string {
	return fmt.Sprintf("%s, error %v", describePeer(ctx), ctx.Err())
}
