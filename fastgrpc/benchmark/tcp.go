package main

import (
	"fmt"
	"io"
	"net"
)

// The raw copy: the same bytes over a bare connection, in writes of 128 KiB, with
// one byte back at the end of each round.
const copyBuffer = 128 << 10

func serveTCP(lis net.Listener, s spec) error {
	for {
		c, err := lis.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			buf := make([]byte, copyBuffer)
			for roundTCP(c, buf, s, s.Work == "put") == nil {
				continue
			}
		}()
	}
}

// roundTCP is one end of a round: it receives the bulk and confirms it, or asks
// for it and sends it.
func roundTCP(c net.Conn, buf []byte, s spec, receive bool) error {
	total := chunksAPut * s.Size
	if receive {
		for n := 0; n < total; {
			m, err := c.Read(buf)
			if err != nil {
				return err
			}
			n += m
		}
		_, err := c.Write(buf[:1])
		return err
	}
	for n := 0; n < total; {
		m, err := c.Write(buf[:min(len(buf), total-n)])
		if err != nil {
			return err
		}
		n += m
	}
	_, err := io.ReadFull(c, buf[:1])
	return err
}

func tcpJob(s spec) (job, error) {
	c, err := net.Dial("tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("raw copy: %w", err)
	}
	buf := make([]byte, copyBuffer)
	return func(int) (float64, error) {
		return float64(chunksAPut*s.Size) / 1e9, roundTCP(c, buf, s, s.Work == "get")
	}, nil
}
