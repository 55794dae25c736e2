package rest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// TestRefusals asks in every wrong way, as a human and as a program.
func TestRefusals(t *testing.T) {
	address := serve(t, &scripted{})
	for name, wrong := range map[string]struct {
		method, path, contentType string
		timeout                   string
		body                      string
		want                      int
		says                      string
		allow                     string
	}{
		"path":          {http.MethodPost, "/uniary", protobuf.message, "", "", 404, "POST /unary", ""},
		"page":          {http.MethodGet, "/favicon.ico", "", "", "", 404, "POST /server-stream", ""},
		"method":        {http.MethodGet, "/unary", "", "", "", 405, "curl --data-binary", "POST"},
		"media type":    {http.MethodPost, "/unary", "application/xml", "", "", 415, protobuf.message, ""},
		"no media type": {http.MethodPost, "/unary", "", "", "", 415, protobuf.message, ""},
		"a message":     {http.MethodPost, "/client-stream", protobuf.message, "", "", 415, protobuf.stream, ""},
		"no JSON":       {http.MethodPost, "/unary", json.message, "", "{", 400, "TestRequest", ""},
		"timeout":       {http.MethodPost, "/unary", protobuf.message, "soon", "", 400, "soon", ""},
		"no protobuf":   {http.MethodPost, "/unary", protobuf.message, "", "\xff\xff", 400, "TestRequest", ""},
		"bidi":          {http.MethodPost, "/bidi", protobuf.stream, "", "", 501, "no bidirectional streams", ""},
	} {
		for _, accept := range []string{"text/plain", protobuf.message} {
			t.Run(name+"/"+accept, func(t *testing.T) {
				request, err := http.NewRequestWithContext(bounded(t), wrong.method, "http://"+address+wrong.path, strings.NewReader(wrong.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Accept", accept)
				request.Header.Set("Content-Type", wrong.contentType)
				if wrong.timeout != "" {
					request.Header.Set(timeoutHeader, wrong.timeout)
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				if accept == protobuf.message {
					var st spb.Status
					if err := proto.Unmarshal(body, &st); err != nil || response.Header.Get("Content-Type") != protobuf.status || st.Code == 0 {
						t.Errorf("a program is told %q as %s", body, response.Header.Get("Content-Type"))
					}
					body = []byte(st.Message)
				}
				if response.StatusCode != wrong.want || !strings.Contains(string(body), wrong.says) || response.Header.Get("Allow") != wrong.allow {
					t.Errorf("HTTP %d, %q, Allow %q; want %d with %q", response.StatusCode, body, response.Header.Get("Allow"), wrong.want, wrong.says)
				}
			})
		}
	}
}

// TestOversizeIsRefusedUnread promises too much and sends little of it, with
// and without a Content-Length.
func TestOversizeIsRefusedUnread(t *testing.T) {
	address := serve(t, &scripted{})
	head := "POST /unary HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, make([]byte, 1<<20))
	for name, request := range map[string]string{
		"Content-Length": head + fmt.Sprintf("Content-Length: %d\r\n\r\n", stack.MaxMessageBytes+1),
		"chunks":         head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, stack.MaxMessageBytes>>20) + "1\r\nx\r\n",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer := exchangeRaw(t, address, request)
		runtime.ReadMemStats(&after)
		if !strings.HasPrefix(answer, "HTTP/1.1 413 ") {
			t.Errorf("%s: the answer is %.60q", name, answer)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; name == "Content-Length" && spent > 1<<20 {
			t.Errorf("%s: the promise alone made it allocate %d bytes", name, spent)
		}
	}
}

// TestHTTP10 serves old clients what they can take.
func TestHTTP10(t *testing.T) {
	address := serve(t, &scripted{})
	ask := func(path string) string {
		return exchangeRaw(t, address, "POST "+path+" HTTP/1.0\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
	}
	if answer := ask("/unary"); !strings.Contains(answer, " 200 OK\r\n") {
		t.Errorf("a message to HTTP/1.0: %q", answer)
	}
	if answer := ask("/server-stream"); !strings.Contains(answer, " 505 ") {
		t.Errorf("a stream to HTTP/1.0: %q", answer)
	}
}

// TestAnswerBeforeTheRequestEnds has a handler that does not read on, and a
// second call after it.
func TestAnswerBeforeTheRequestEnds(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, &scripted{
		clientStream: func(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
			return stream.SendAndClose(&testpb.TestResponse{})
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	request := "POST /client-stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x00\x00\x00\x00\r\n0\r\n\r\n"
	answers := bufio.NewReader(conn)
	for i := range 2 {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("call %d: %v, %v", i, response, err)
		}
		response.Body.Close()
	}
}

// exchangeRaw sends bytes and returns the first that come back.
func exchangeRaw(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

// TestUnaryAnswerIsPlain pins what an answer costs on the wire: no chunks, no
// more headers than it needs.
func TestUnaryAnswerIsPlain(t *testing.T) {
	message, err := proto.Marshal(&testpb.TestRequest{Body: bytes.Repeat([]byte{'x'}, 5000)})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post("http://"+serve(t, &scripted{})+"/unary", protobuf.message, bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if len(response.TransferEncoding) > 0 || response.ContentLength != int64(len(message)) || len(response.Header) != 3 {
		t.Errorf("Transfer-Encoding %v, Content-Length %d, %v", response.TransferEncoding, response.ContentLength, response.Header)
	}
}
