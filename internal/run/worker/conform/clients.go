package conform

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"

	"wirelab.dev/internal/run/worker"
)

// refusesLoad expects an error event for a load that the worker does not say it has.
func (p Peer) refusesLoad(t T) {
	spec := p.client(p.otherServer(t))
	spec.Client.Load = worker.Load{Model: "open", RatePerSecond: 100, Arrivals: "constant", DurationNS: 1e8, DrainNS: int64(patience)}
	_, err := p.start(t, p.Command, spec).Result(p.context(t))
	wantError(t, err, "open")
}

// connects expects as many connections as the mode says.
func (p Peer) connects(mode string) func(T) {
	return func(t T) {
		spec := p.client(p.otherServer(t))
		spec.Client.Connection = mode
		want := int64(clients)
		switch mode {
		case "shared":
			want = 1
		case "pool":
			spec.Client.Connection, want = "pool:2", 2
		case "new", "resumed", "0rtt":
			want = clients * requests
		}
		result := p.measure(t, p.Command, spec)
		checkResult(t, result, clients*requests)
		made := result.Connections
		if perRequest := want > clients; perRequest && made.During < want || !perRequest && (made.Total.Opened != want || made.During != 0) {
			t.Errorf("%s: %d connections were opened, %d of them in the window; want %d", spec.Client.Connection, made.Total.Opened, made.During, want)
		}
	}
}

// wrongAnswers expects that what comes back changed is no success. The only server that lies
// is one of bare TCP, so other stacks have nothing to show here.
func (p Peer) wrongAnswers(t T) {
	if name, _, _ := strings.Cut(p.Stack, ":"); name != "tcp" {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go lie(conn) // ends with the connection
		}
	}()
	result := p.measure(t, p.Command, p.spec(worker.ClientRole, listener.Addr().String()))
	var wrong int64
	for _, f := range result.Failures {
		if f.Code == "WrongAnswer" {
			wrong += f.Count
		}
	}
	if wrong != clients*requests {
		t.Errorf("%d of %d answers had another last byte than was sent, and %d were told", clients*requests, clients*requests, wrong)
	}
}

// lie answers plain frames with a changed byte of data: the last but those of the timestamp.
func lie(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(head[:])&(1<<20-1))
		if _, err := io.ReadFull(in, message); err != nil {
			return
		}
		message[len(message)/2] ^= 1 // of the data, which is most of it
		if _, err := conn.Write(append(head[:], message...)); err != nil {
			return
		}
	}
}
