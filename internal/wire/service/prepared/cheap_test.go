package prepared

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"wirelab.dev/internal/wire/service"
)

// This file holds cheap servers, which leave the cost of a call to the client.

// cheapHTTP1 is the plan for a server of serveHTTP1.
func cheapHTTP1(t testing.TB, size int) service.Plan {
	plan := cheap(t, func(conn net.Conn) { serveHTTP1(conn, size) })
	plan.Wire, plan.Requests = service.HTTP1, []service.Request{{Method: "GET", Path: "/"}}
	return plan
}

// serveHTTP1 answers each request with a body of size bytes. It takes the bytes of one read
// for one request.
func serveHTTP1(conn net.Conn, size int) {
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", size, make([]byte, size))
	request := make([]byte, 64<<10)
	for {
		if _, err := conn.Read(request); err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// message returns an encoded message of size bytes, at least 4: bytes, as field 1.
func message(size int) []byte {
	content := size - 2
	if content > 127 {
		content--
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, content))
}

// cheapHTTP2 is the plan for a server of serveHTTP2.
func cheapHTTP2(t testing.TB, grpc bool, size int) service.Plan {
	plan := cheap(t, func(conn net.Conn) { serveHTTP2(conn, grpc, size) })
	plan.Wire = service.HTTP2
	plan.Requests = []service.Request{{Method: "GET", Path: "/"}}
	if grpc {
		plan.Wire = service.GRPC
		plan.Requests = []service.Request{{Path: "/test/Echo", Messages: [][]byte{message(size)}}}
	}
	return plan
}

// cheapAnswer returns the frames that answer stream 1.
func cheapAnswer(grpc bool, size int) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	encode := func(fields ...string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.TrimPrefix(bytes.Clone(block.Bytes()), []byte{0x20}) // the size of the table
	}
	var answer bytes.Buffer
	framer := http2.NewFramer(&answer, nil)
	if grpc {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(":status", "200", "content-type", "application/grpc"), EndHeaders: true})
		body := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
		_ = framer.WriteData(1, false, append(body, message(size)...))
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode("grpc-status", "0"), EndHeaders: true, EndStream: true})
	} else {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(":status", "200", "content-type", "text/plain"), EndHeaders: true})
		_ = framer.WriteData(1, true, make([]byte, size))
	}
	return answer.Bytes()
}

// serveHTTP2 answers each stream at its end. One write answers all streams of one read.
func serveHTTP2(conn net.Conn, grpc bool, size int) {
	answer := cheapAnswer(grpc, size)
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	out := []byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00") // SETTINGS, WINDOW_UPDATE
	in, have := make([]byte, 256<<10), 0
	for {
		if _, err := conn.Write(out); err != nil {
			return
		}
		n, err := conn.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		out = out[:0]
		at, brought := 0, 0
		const header = 9
		for have-at >= header {
			length := int(in[at])<<16 | int(in[at+1])<<8 | int(in[at+2])
			if have-at < header+length {
				break
			}
			kind, flags, id := http2.FrameType(in[at+3]), http2.Flags(in[at+4]), in[at+5:at+header]
			switch {
			case kind == http2.FrameSettings && !flags.Has(http2.FlagSettingsAck):
				out = append(out, "\x00\x00\x00\x04\x01\x00\x00\x00\x00"...)
			case kind == http2.FrameData:
				brought += length
				fallthrough
			case kind == http2.FrameHeaders:
				if flags.Has(http2.FlagDataEndStream) {
					begin := len(out)
					out = append(out, answer...)
					for f := begin; f < len(out); f += header + (int(out[f])<<16 | int(out[f+1])<<8 | int(out[f+2])) {
						copy(out[f+5:], id)
					}
				}
			}
			at += header + length
		}
		have = copy(in, in[at:have])
		if brought > 0 {
			out = append(out, 0, 0, 4, byte(http2.FrameWindowUpdate), 0, 0, 0, 0, 0)
			out = binary.BigEndian.AppendUint32(out, uint32(brought))
		}
	}
}

// cheap serves connections until the test ends.
func cheap(t testing.TB, serve func(net.Conn)) service.Plan {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go serveAll(listener, serve) // until the listener is closed
	t.Cleanup(func() { _ = listener.Close() })
	return service.Plan{Definition: &service.Definition{Address: listener.Addr().String()}}
}

func serveAll(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { // until the client closes the connection
			defer conn.Close()
			serve(conn)
		}()
	}
}
