package tcp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// This file is a minimal echo client and server in the plain framing. It uses
// nothing of package stack, and handles neither failures nor the other framing. It
// is the foreign peer of the tests and the baseline of the benchmark.

// plainEnd is one end of a connection. With keep it reads through a buffer and
// uses the memory of its frames again.
type plainEnd struct {
	conn    net.Conn
	source  io.Reader
	keep    bool
	in, out []byte
	length  [4]byte
}

func newPlainEnd(conn net.Conn, keep bool) *plainEnd {
	e := &plainEnd{conn: conn, source: conn, keep: keep}
	if keep {
		e.source = bufio.NewReader(conn)
	}
	return e
}

func (e *plainEnd) read(m proto.Message) error {
	if _, err := io.ReadFull(e.source, e.length[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(e.length[:]))
	if size > stack.MaxMessageBytes {
		return fmt.Errorf("message of %d bytes", size)
	}
	if !e.keep || cap(e.in) < size {
		e.in = make([]byte, size)
	}
	if _, err := io.ReadFull(e.source, e.in[:size]); err != nil {
		return err
	}
	return proto.Unmarshal(e.in[:size], m)
}

func (e *plainEnd) write(m proto.Message) error {
	size := proto.Size(m)
	if !e.keep || cap(e.out) < 4+size {
		e.out = make([]byte, 4+size)
	}
	binary.BigEndian.PutUint32(e.out[:4], uint32(size))
	frame, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(e.out[:4], m)
	if err != nil {
		return err
	}
	_, err = e.conn.Write(frame)
	return err
}

func (e *plainEnd) call(in *echopb.Payload) (*echopb.Payload, error) {
	if err := e.write(in); err != nil {
		return nil, err
	}
	out := new(echopb.Payload)
	return out, e.read(out)
}

// echoPlainly answers each connection of the listener until it is closed.
func echoPlainly(listener net.Listener, keep bool) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			end := newPlainEnd(conn, keep)
			for {
				in := new(echopb.Payload)
				if end.read(in) != nil || end.write(in) != nil {
					return
				}
			}
		}()
	}
}
