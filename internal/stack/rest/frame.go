package rest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// A side of a call that is a stream is a sequence of frames: the length of a
// message in four bytes, the highest first, and the message.
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

// readFrame returns the next message. It returns io.EOF only at the end of a
// frame, and io.ErrUnexpectedEOF within one. What it allocates follows what
// arrives, not what the length promises.
func (c *codec) readFrame(r io.Reader) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > c.most {
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
