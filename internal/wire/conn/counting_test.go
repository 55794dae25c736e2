//go:build linux

package conn

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// listen serves every connection with answer, which closes it, until the test
// is over.
func listen(t testing.TB, answer func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return listener.Addr().String()
}

// tenfold answers each request of requestBytes with ten times as many bytes.
func tenfold(requestBytes int) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close()
		request := make([]byte, requestBytes)
		for {
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			if _, err := conn.Write(bytes.Repeat(request, 10)); err != nil {
				return
			}
		}
	}
}

func exchange(t testing.TB, conn net.Conn, requestBytes, calls int) {
	t.Helper()
	for range calls {
		if _, err := conn.Write(make([]byte, requestBytes)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 10*requestBytes)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrafficIsExact(t *testing.T) {
	const requestBytes, calls = 300, 20
	address := listen(t, tenfold(requestBytes))
	var d Dialer
	first, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, first, requestBytes, 5)
	before := d.Traffic()
	exchange(t, first, requestBytes, calls)
	second, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, second, requestBytes, calls)
	if err := second.Close(); err != nil { // the kernel then forgets its counts
		t.Fatal(err)
	}
	_ = second.Close()

	got := d.Traffic().Since(before)
	if want := int64(2 * calls * requestBytes); got.SentBytes != want || got.ReceivedBytes != 10*want {
		t.Errorf("%d bytes sent, %d received; want %d and %d", got.SentBytes, got.ReceivedBytes, want, 10*want)
	}
	if sent, received := got.SentPackets-got.SentPureAcks, got.ReceivedPackets-got.ReceivedPureAcks; sent != 2*calls || received != 2*calls {
		t.Errorf("%d packets with payload sent, %d received; want %d each", sent, received, 2*calls)
	}
	if got.Retransmits != 0 || got.Transport != "tcp" || got.HeaderBytes < 40 || got.HeaderBytes > 52 {
		t.Errorf("%+v", got)
	}
	if got.ClosedRTT.Count != 1 || got.OpenRTT.Count != 1 || got.RTT() <= 0 || got.MinRTT <= 0 || got.MinRTT > got.RTT() {
		t.Errorf("RTT %v of %+v and %+v, at least %v", got.RTT(), got.ClosedRTT, got.OpenRTT, got.MinRTT)
	}
	_ = first.Close()
}

// What net/http sends must be what its server reads, to the byte.
func TestTrafficOfHTTP(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	read := make(chan int, 1)
	address := listen(t, func(conn net.Conn) {
		defer conn.Close()
		var raw bytes.Buffer
		in := bufio.NewReader(io.TeeReader(conn, &raw))
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		read <- raw.Len()
		_, _ = io.WriteString(conn, answer)
		_, _ = in.ReadByte() // until the client closes
	})
	var d Dialer
	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	response, err := client.Post(fmt.Sprintf("http://%s/echo", address), "text/plain", bytes.NewReader(make([]byte, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	client.CloseIdleConnections()
	got := d.Traffic()
	if want := int64(<-read); got.SentBytes != want || got.ReceivedBytes != int64(len(answer)) {
		t.Errorf("%d bytes sent, %d received; want %d and %d", got.SentBytes, got.ReceivedBytes, want, len(answer))
	}
}

func TestRecordsCountTLSOverhead(t *testing.T) {
	const requestBytes, calls = 1000, 7
	serverConfig, clientConfig := ends(t)
	serverConfig.DynamicRecordSizingDisabled = true // an answer is one record
	answer := tenfold(requestBytes)
	address := listen(t, func(conn net.Conn) { answer(tls.Server(conn, serverConfig)) })

	d := Dialer{Records: &Records{}}
	conn, err := d.DialContext(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	tlsInfo := tls.Client(conn, clientConfig)
	if err := tlsInfo.Handshake(); err != nil {
		t.Fatal(err)
	}
	shaken, begun := d.Traffic(), d.Records.Counts()
	if begun.Handshakes != 1 || begun.HandshakeSentBytes != shaken.SentBytes || begun.HandshakeReceivedBytes != shaken.ReceivedBytes {
		t.Errorf("the handshake: %+v by its records, %d and %d bytes by the kernel", begun, shaken.SentBytes, shaken.ReceivedBytes)
	}
	exchange(t, tlsInfo, requestBytes, calls)
	records, traffic := d.Records.Counts().Since(begun), d.Traffic().Since(shaken)
	if records.Sent != calls || records.Received != calls || records.Handshakes != 0 {
		t.Errorf("%+v, want %d records each way", records, calls)
	}
	if got, want := traffic.SentBytes-calls*requestBytes, int64(calls*RecordBytes); got != want {
		t.Errorf("TLS added %d bytes to the requests, want %d", got, want)
	}
	if got, want := traffic.ReceivedBytes-10*calls*requestBytes, int64(calls*RecordBytes); got != want {
		t.Errorf("TLS added %d bytes to the answers, want %d", got, want)
	}
	_ = tlsInfo.Close()
}

// crypto/tls begins a connection with small records. Whatever it does, what is
// counted as added leaves the content.
func TestRecordsOfAnySize(t *testing.T) {
	const requestBytes, calls = 20_000, 3
	serverConfig, clientConfig := ends(t)
	answer := tenfold(requestBytes)
	address := listen(t, func(conn net.Conn) { answer(tls.Server(conn, serverConfig)) })
	d := Dialer{Records: &Records{}}
	conn, err := (&Opener{Dialer: &d, Address: address, TLS: clientConfig}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begun, shaken := d.Records.Counts(), d.Traffic()
	exchange(t, conn, requestBytes, calls)
	records, traffic := d.Records.Counts().Since(begun), d.Traffic().Since(shaken)
	_ = conn.Close()
	if full := int64(calls * (10*requestBytes/(16<<10) + 1)); records.Received <= full {
		t.Errorf("%d records: all are full, so nothing was shown of small ones", records.Received)
	}
	sent, received := traffic.SentBytes-records.Sent*RecordBytes, traffic.ReceivedBytes-records.Received*RecordBytes
	if sent != calls*requestBytes || received != 10*calls*requestBytes {
		t.Errorf("contents of %d and %d bytes, want %d and %d", sent, received, calls*requestBytes, 10*calls*requestBytes)
	}
}

func TestTrafficCountsHandshakes(t *testing.T) {
	serverConfig, clientConfig := ends(t)
	answer := tenfold(10)
	address := listen(t, func(conn net.Conn) { answer(tls.Server(conn, serverConfig)) })
	var d Dialer
	conn, err := (&Opener{Dialer: &d, Address: address, TLS: clientConfig}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := d.Traffic()
	exchange(t, conn, 10, 1)
	after := d.Traffic()
	_ = conn.Close()
	if before.Handshakes != 1 || before.HandshakeSentBytes != before.SentBytes || before.HandshakeReceivedBytes != before.ReceivedBytes || before.SentBytes < 200 {
		t.Errorf("after the handshake: %+v", before)
	}
	if after.HandshakeSentBytes != before.HandshakeSentBytes || after.SentBytes != before.SentBytes+10+RecordBytes {
		t.Errorf("after a call: %+v", after)
	}
}

// However a stream is cut, the records in it are the same.
func FuzzRecordParser(f *testing.F) {
	f.Add([]byte{22, 3, 1, 0, 2, 'a', 'b', 23, 3, 3, 0, 0, 23, 3, 3, 0, 1, 'c'}, uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		records := func(piece int) (found []tlsRecord) {
			var p recordParser
			for rest := stream; len(rest) > 0; {
				n := min(piece, len(rest))
				p.parse(rest[:n], func(r tlsRecord) { found = append(found, r) })
				rest = rest[n:]
			}
			return found
		}
		whole, pieces := records(len(stream)+1), records(max(1, int(piece)))
		if fmt.Sprint(whole) != fmt.Sprint(pieces) {
			t.Errorf("whole: %v, in pieces of %d: %v", whole, piece, pieces)
		}
	})
}

// What counting costs a connection: reading it once, when it is closed.
func BenchmarkTraffic(b *testing.B) {
	address := listen(b, tenfold(10))
	var d Dialer
	const open = 100
	for range open {
		conn, err := d.DialContext(context.Background(), "tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
	}
	for b.Loop() {
		d.Traffic()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/open, "ns/connection")
}
