package bulk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

// Frames of creditrpc, as docs/creditrpc.md has them.
const (
	creditHello, creditMethod, creditRequest = 0, 1, 2
	creditMore, creditEnd, creditLong        = 0x10, 0x20, 0x80
	creditLeastWindow                        = 139_392
	creditCalls                              = 1024 // that a server grants at first
)

// creditAttack opens as many calls as a server grants, and takes no answer.
type creditAttack struct {
	name   string
	method string
	answer int
	// request is the frame of one call, without its header, and flags its flags.
	request []byte
	flags   byte
	bound   int // bytes that the package's comment allows the server to keep
}

func creditAttacks() []creditAttack {
	message, err := proto.Marshal(unaryRequest(0))
	if err != nil {
		panic(err) // it is well-formed
	}
	begin := []byte{0, 0, 0} // the first method, no timeout, no metadata
	claim := append(binary.AppendUvarint(bytes.Clone(begin), 4<<20), 1)
	part := append(binary.AppendUvarint(bytes.Clone(begin), 4<<20), make([]byte, 60_000)...)
	const unread = creditCalls*(256<<10+16<<10) + 2*mebibyte + 64*mebibyte
	return []creditAttack{
		{name: "answers of 1 MB that are not taken", method: "UnaryCall", answer: mebibyte, request: append(begin, message...), flags: creditEnd, bound: unread + creditCalls*mebibyte},
		{name: "4 MB claimed, 1 byte sent", method: "UnaryCall", request: claim, flags: creditLong | creditMore, bound: 16 * mebibyte},
		{name: "incomplete messages of 4 MB, 60 KB sent", method: "FullDuplexCall", request: part, flags: creditLong | creditMore, bound: unread},
	}
}

// TestHostileToCredit makes each attack on a server of creditrpc, and holds its heap against
// what the package's comment promises.
func TestHostileToCredit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: an attack takes seconds")
	}
	var rows []string
	for _, a := range creditAttacks() {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			server := start(t, "server", nil)
			address := server.do(t, order{
				Do: "listen", Address: "127.0.0.1:0", Settings: settings{Library: credits, Calls: creditCalls}, Load: load{Down: 1}, Answer: a.answer,
			}).Address
			nc, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			go func() { _, _ = io.Copy(io.Discard, nc) }() // ends when the connection is closed
			if _, err := nc.Write(a.frames()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(afterWave)
			kept := server.do(t, order{Do: "live"}).Usage
			t.Logf("live heap %s (peak %s), bound %s", size(int(kept.Heap)), size(int(kept.PeakHeap)), size(a.bound))
			if float64(kept.Heap) > factor*float64(a.bound) {
				t.Errorf("the live heap is %s, and the documented bound %s", size(int(kept.Heap)), size(a.bound))
			}
			rows = append(rows, fmt.Sprintf("| %s | %d | %s; %s | %s |", a.name, creditCalls, size(int(kept.Heap)), size(int(kept.PeakHeap)), size(a.bound)))
		})
	}
	if os.Getenv("JUDGES") != "" && os.Getenv("UPDATE") != "" {
		writeTable(t, "hostile to creditrpc", []string{"attack", "calls", "creditrpc: live; peak", "documented bound"}, rows)
	}
}

// frames returns the whole attack.
func (a *creditAttack) frames() []byte {
	var out bytes.Buffer
	write := func(kind, flags byte, stream uint32, payload []byte) {
		n := len(payload)
		out.Write([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind | flags})
		out.Write(binary.BigEndian.AppendUint32(nil, stream))
		out.Write(payload)
	}
	hello := append([]byte("CRPC"), 1)
	for _, setting := range [][2]uint64{{1, creditLeastWindow}, {2, creditLeastWindow}, {4, 8 << 20}} { // windows; the longest message
		hello = binary.AppendUvarint(binary.AppendUvarint(hello, setting[0]), setting[1])
	}
	write(creditHello, 0, 0, hello)
	write(creditMethod, 0, 0, []byte("/grpc.testing.TestService/"+a.method))
	for i := range uint32(creditCalls) {
		write(creditRequest, a.flags, i+1, a.request)
	}
	return out.Bytes()
}
