package rest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// A stream is a sequence of frames: the length of a message in four bytes, big
// endian, and the message.
const frameHeaderBytes = 4

// frameOf marshals a message into a frame.
func (c *codec) frameOf(message any) ([]byte, error) {
	encoded, err := c.marshal(message)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, frameHeaderBytes, frameHeaderBytes+len(encoded))
	binary.BigEndian.PutUint32(frame, uint32(len(encoded)))
	return append(frame, encoded...), nil
}

// readFrame returns the next message. It returns io.EOF at the end of the last frame,
// and io.ErrUnexpectedEOF within a frame. It allocates by what arrives, not by the
// announced length.
func (c *codec) readFrame(r io.Reader) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > c.maxBytes {
		return nil, c.errTooLarge(length)
	}
	var message bytes.Buffer
	if _, err := io.CopyN(&message, r, length); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return message.Bytes(), nil
}
