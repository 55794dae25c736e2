package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// TestForeignServers has the client call servers that know nothing of wirelab.
func TestForeignServers(t *testing.T) {
	answer := func(httpStatus int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(httpStatus)
			_, _ = io.WriteString(w, body)
		}
	}
	message, err := proto.Marshal(&testpb.TestResponse{Body: []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	for name, foreign := range map[string]struct {
		handler http.HandlerFunc
		want    codes.Code
		says    string
	}{
		"right":             {answer(200, protobuf.message, string(message)), codes.OK, ""},
		"right, other name": {answer(200, "application/protobuf", string(message)), codes.OK, ""},
		"a page":            {answer(200, "text/html", "<h1>Welcome</h1>"), codes.Unknown, "Welcome"},
		"not protobuf":      {answer(200, protobuf.message, "\xff\xff"), codes.Internal, "TestResponse"},
		"bad request":       {answer(400, "text/plain", "no"), codes.InvalidArgument, "400 Bad Request"},
		"who are you":       {answer(401, "text/plain", ""), codes.Unauthenticated, "401"},
		"not found":         {answer(404, "text/plain", "404 page not found\n"), codes.Unimplemented, "page not found"},
		"too many":          {answer(429, "text/plain", "slow down"), codes.ResourceExhausted, "slow down"},
		"overloaded":        {answer(503, "text/html", "busy"), codes.Unavailable, "busy"},
		"gateway":           {answer(504, "application/json", "{}"), codes.DeadlineExceeded, "504"},
		"teapot":            {answer(418, "text/plain", "short and stout"), codes.Unknown, "stout"},
		"elsewhere":         {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, codes.Unknown, "302"},
		"a false OK":        {answer(500, protobuf.status, ""), codes.Internal, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(foreign.handler)
			defer server.Close()
			client := dial(t, strings.TrimPrefix(server.URL, "http://"), 1)
			out, err := testpb.NewTestServiceClient(client).Unary(bounded(t), &testpb.TestRequest{})
			if status.Code(err) != foreign.want || !strings.Contains(status.Convert(err).Message(), foreign.says) {
				t.Errorf("the call ended with %v; want %v with %q", err, foreign.want, foreign.says)
			}
			if err == nil && string(out.Body) != "hello" {
				t.Errorf("the answer is %v", out)
			}
		})
	}
}

// TestCurl drives the server as docs/wire-http.md says.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skipf("curl is not installed: %v", err)
	}
	address := serve(t, &scripted{unary: func(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if in.Code != 0 {
			return nil, status.Error(codes.Code(in.Code), in.Message)
		}
		md, _ := metadata.FromIncomingContext(ctx)
		return &testpb.TestResponse{Body: in.Body, Metadata: map[string]string{"x-request-id": strings.Join(md.Get("x-request-id"), ",")}}, nil
	}})
	run := func(in *testpb.TestRequest, args ...string) (httpStatus string, body []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "request.bin")
		encoded, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, encoded, 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(bounded(t), curl, append([]string{"--silent", "--show-error", "--noproxy", "*", "--data-binary", "@" + file, "--write-out", "\n%{http_code}"}, args...)...)
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v: %v", command, err)
		}
		end := bytes.LastIndexByte(out, '\n')
		return string(out[end+1:]), out[:end]
	}

	// Two megabytes make curl ask for leave first, with Expect: 100-continue.
	for _, in := range []*testpb.TestRequest{{}, {Body: []byte("hello")}, {Body: make([]byte, 2<<20)}} {
		for _, path := range []string{"/unary", testpb.TestService_Unary_FullMethodName} {
			httpStatus, body := run(in, "-H", "Content-Type: application/x-protobuf", "-H", "X-Request-Id: 7", "http://"+address+path)
			var out testpb.TestResponse
			if httpStatus != "200" || proto.Unmarshal(body, &out) != nil || !bytes.Equal(out.Body, in.Body) || out.Metadata["x-request-id"] != "7" {
				t.Errorf("%s with %d bytes: HTTP %s, %d bytes, metadata %v", path, len(in.Body), httpStatus, len(out.Body), out.Metadata)
			}
		}
	}

	failing := &testpb.TestRequest{Code: int32(codes.NotFound), Message: "no such user"}
	httpStatus, body := run(failing, "-H", "Content-Type: application/x-protobuf", "-H", "Accept: text/plain", "http://"+address+"/unary")
	if httpStatus != "404" || string(body) != "NotFound: no such user\n" {
		t.Errorf("an error for a human: HTTP %s, %q", httpStatus, body)
	}
	if httpStatus, body = run(failing, "http://"+address+"/unary"); httpStatus != "415" || !strings.Contains(string(body), "-H 'Content-Type: application/x-protobuf'") {
		t.Errorf("curl's own content type: HTTP %s, %q", httpStatus, body)
	}
}
