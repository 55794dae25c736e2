package wire

import (
	"encoding/binary"
	"io"
)

// PrefixLen is the length of a message's prefix: a flag of one byte, which says whether the
// message is compressed, and the message's length.
const PrefixLen = 5

// PutPrefix fills in the prefix at the start of b, which holds one message.
func PutPrefix(b []byte, compressed bool) {
	b[0] = 0
	if compressed {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-PrefixLen))
}

// ParsePrefix returns what the prefix at the start of b says.
func ParsePrefix(b []byte) (flags byte, length uint32) {
	return b[0], binary.BigEndian.Uint32(b[1:PrefixLen])
}

// AppendMessage appends a message that is not compressed, with its prefix.
func AppendMessage(to, message []byte) []byte {
	to = binary.BigEndian.AppendUint32(append(to, 0), uint32(len(message)))
	return append(to, message...)
}

// ReadPrefix reads a prefix. The error is io.EOF only if nothing comes.
func ReadPrefix(from io.Reader) (flags byte, length uint32, err error) {
	var prefix [PrefixLen]byte
	if _, err := io.ReadFull(from, prefix[:]); err != nil {
		return 0, 0, err
	}
	flags, length = ParsePrefix(prefix[:])
	return flags, length, nil
}
