package conform

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A relay stands between clients and a server. It holds back everything that the server sends for a
// fixed time, so no client can get an answer sooner.
type relay struct {
	address  string
	delay    time.Duration
	answered atomic.Int64 // bytes that the server sent

	mu      sync.Mutex
	closed  bool
	sockets []io.Closer
	running sync.WaitGroup
}

// startRelay starts a relay to a server. The relay ends with the check.
func startRelay(t T, network, server string, delay time.Duration) *relay {
	t.Helper()
	r := &relay{delay: delay}
	t.Cleanup(r.close)
	start := r.listenTCP
	if network == "udp" {
		start = r.listenUDP
	}
	if err := start(server); err != nil {
		t.Fatalf("start the relay to the server: %v", err)
	}
	return r
}

// keep closes a socket when the relay ends. It closes the socket at once if the relay has ended.
func (r *relay) keep(socket io.Closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = socket.Close()
	}
	r.sockets = append(r.sockets, socket)
}

// close closes all sockets, which ends the goroutines, and waits for them.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	for _, socket := range r.sockets {
		_ = socket.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) listenTCP(server string) error {
	listener, err := net.Listen("tcp", anyPortAddress)
	if err != nil {
		return err
	}
	r.keep(listener)
	r.address = listener.Addr().String()
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.keep(client)
			behind, err := net.DialTimeout("tcp", server, waitTimeout)
			if err != nil {
				_ = client.Close()
				continue
			}
			r.keep(behind)
			r.running.Go(func() {
				_, _ = io.Copy(behind, client)
				_ = behind.Close()
			})
			r.forwardLate(behind, client, func() { _ = client.Close() })
		}
	})
	return nil
}

func (r *relay) listenUDP(server string) error {
	front, err := net.ListenPacket("udp", anyPortAddress)
	if err != nil {
		return err
	}
	r.keep(front)
	r.address = front.LocalAddr().String()
	r.running.Go(func() {
		behind := map[string]net.Conn{} // by the client's address
		packet := make([]byte, maxChunkBytes)
		for {
			n, client, err := front.ReadFrom(packet)
			if err != nil {
				return
			}
			to := behind[client.String()]
			if to == nil {
				if to, err = net.Dial("udp", server); err != nil {
					return
				}
				r.keep(to)
				behind[client.String()] = to
				r.forwardLate(to, packetWriter{front, client}, func() {})
			}
			_, _ = to.Write(packet[:n]) // QUIC repeats lost packets
		}
	})
	return nil
}

type packetWriter struct {
	from net.PacketConn
	to   net.Addr
}

func (w packetWriter) Write(packet []byte) (int, error) { return w.from.WriteTo(packet, w.to) }

// maxChunkBytes is the longest UDP packet.
const maxChunkBytes = 1 << 16

// forwardLate forwards what the server sends, each chunk after the relay's delay.
func (r *relay) forwardLate(server io.Reader, client io.Writer, ended func()) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	chunks := make(chan chunk, 1024) // more wait in the server's socket
	r.running.Go(func() {
		defer close(chunks)
		data := make([]byte, maxChunkBytes)
		for {
			n, err := server.Read(data)
			if err != nil {
				return
			}
			r.answered.Add(int64(n))
			chunks <- chunk{time.Now().Add(r.delay), append([]byte(nil), data[:n]...)}
		}
	})
	r.running.Go(func() {
		defer ended()
		for one := range chunks {
			time.Sleep(time.Until(one.due))
			_, _ = client.Write(one.data) // a client that has gone gets nothing
		}
	})
}
