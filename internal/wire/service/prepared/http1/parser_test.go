package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An outcome holds the result of a parser.
type outcome struct {
	status  int
	bytes   int64
	close   bool
	done    bool
	rest    int // bytes that it left
	end     error
	refused bool
}

// parse feeds pieces of at most piece bytes, and keeps the bytes that the parser leaves.
func parse(input []byte, content Content, piece int) outcome {
	var p Parser
	p.Begin(content)
	from, to := 0, 0
	for {
		used, done, err := p.Feed(input[from:to])
		from += used
		if err != nil {
			return outcome{refused: true}
		}
		if done || to == len(input) {
			o := outcome{status: p.Status, bytes: p.Bytes, close: p.Close, done: done, end: p.End()}
			if o.rest = len(input) - from; !done {
				o.rest = 0 // a partial line may be left or not
			}
			return o
		}
		to = min(len(input), to+piece)
	}
}

var answers = []struct {
	name, bytes string
	content     Content
	want        outcome
}{
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Body, outcome{status: 200, bytes: 5, done: true}},
	{"no reason", "HTTP/1.1 204\r\n\r\n", Body, outcome{status: 204, done: true}},
	{"length 0", "HTTP/1.1 200 OK\r\ncontent-LENGTH:\t0 \r\n\r\n", Body, outcome{status: 200, done: true}},
	{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n", Body, outcome{status: 200, bytes: 15, done: true}},
	{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Body, outcome{status: 200, bytes: 1, done: true}},
	{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", NoBody, outcome{status: 200, done: true}},
	{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Body, outcome{status: 304, done: true}},
	{"close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nhi", Body, outcome{status: 200, bytes: 2, close: true, done: true}},
	{"to the end", "HTTP/1.1 200 OK\r\n\r\nhello", Body, outcome{status: 200, bytes: 5, close: true}},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", Body, outcome{status: 200, bytes: 2, close: true, done: true}},
	{"HTTP/1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", Body, outcome{status: 200, bytes: 2, done: true}},
	{"rest", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1", Body, outcome{status: 200, bytes: 2, done: true, rest: 8}},
	{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Body, outcome{status: 101, close: true, done: true}},
	{"cut head", "HTTP/1.1 200 OK\r\nContent-Le", Body, outcome{status: 200, end: io.ErrUnexpectedEOF}},
	{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", Body, outcome{status: 200, bytes: 3, end: io.ErrUnexpectedEOF}},
	{"cut chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Body, outcome{status: 200, bytes: 5, end: io.ErrUnexpectedEOF}},
	{"nothing", "", Body, outcome{end: io.EOF}},

	{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n", Body, outcome{refused: true}},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Body, outcome{refused: true}},
	{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", Body, outcome{refused: true}},
	{"length beyond int64", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\nhello", Body, outcome{refused: true}},
	{"compressed transfer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Body, outcome{refused: true}},
	{"long chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n", Body, outcome{refused: true}},
	{"size of a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", Body, outcome{refused: true}},
	{"huge chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", Body, outcome{refused: true}},
	{"line feed alone in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", Body, outcome{refused: true}},
	{"no colon", "HTTP/1.1 200 OK\r\nfield\r\n\r\n", Body, outcome{refused: true}},
	{"folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Body, outcome{refused: true}},
	{"endless line", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxLine+1), Body, outcome{refused: true}},
	{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHead/6), Body, outcome{refused: true}},
	{"endless trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", maxHead/6), Body, outcome{refused: true}},
	{"interim answers for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterimAnswers+1), Body, outcome{refused: true}},
}

func TestAnswers(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			pieces := []int{1, 2, 3, 7, 4096, 1 << 20}
			if len(a.bytes) > 4096 {
				pieces = pieces[4:]
			}
			for _, piece := range pieces {
				if got := parse([]byte(a.bytes), a.content, piece); got != a.want {
					t.Errorf("in pieces of %d: %+v, want %+v", piece, got, a.want)
				}
			}
		})
	}
}

// The busiest server that breaks no rule is not refused.
func TestLongHeadIsRead(t *testing.T) {
	long := strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterimAnswers) +
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxLine-10) + "\r\n" + strings.Repeat("A: "+strings.Repeat("b", 995)+"\r\n", 150) + "Content-Length: 1\r\n\r\nx"
	want := outcome{status: 200, bytes: 1, done: true}
	if got := parse([]byte(long), Body, 1000); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// ofLibrary returns the outcome of net/http for the bytes; false: it refuses them.
func ofLibrary(input []byte, content Content) (outcome, bool) {
	request := &http.Request{Method: http.MethodGet}
	if content == NoBody {
		request.Method = http.MethodHead
	}
	reader := bufio.NewReader(bytes.NewReader(input))
	for range maxInterimAnswers + 1 {
		answer, err := http.ReadResponse(reader, request)
		if err != nil {
			return outcome{}, false
		}
		if answer.StatusCode < 200 && answer.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		n, err := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return outcome{}, false
		}
		o := outcome{status: answer.StatusCode, bytes: n, close: answer.Close, end: err}
		rest, _ := io.Copy(io.Discard, reader)
		o.rest = int(rest)
		return o, true
	}
	return outcome{}, false
}

func FuzzParser(f *testing.F) {
	for _, a := range answers {
		if len(a.bytes) < 4096 {
			f.Add([]byte(a.bytes), a.content == NoBody, uint16(3))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, head bool, piece uint16) {
		content := Body
		if head {
			content = NoBody
		}
		whole := parse(input, content, len(input)+1)
		if split := parse(input, content, int(piece)%64+1); split != whole {
			t.Errorf("split: %+v\nwhole: %+v", split, whole)
		}
		library, accepted := ofLibrary(input, content)
		if !accepted || whole.refused || !whole.done && whole.end != nil {
			return
		}
		whole.done = false
		if library.status == http.StatusSwitchingProtocols {
			library.close, library.rest, library.bytes = whole.close, whole.rest, whole.bytes // net/http hands over the connection
		}
		if library.end == nil && library != whole {
			t.Errorf("net/http: %+v\nParser:   %+v", library, whole)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: x\r\nContent-Length: 64\r\n\r\n" + strings.Repeat("x", 64))
	b.ReportAllocs()
	var p Parser
	for b.Loop() {
		p.Begin(Body)
		if _, done, err := p.Feed(answer); !done || err != nil {
			b.Fatal("not complete")
		}
	}
}
