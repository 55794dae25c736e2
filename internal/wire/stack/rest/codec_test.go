package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// TestServerAnswersInTheCodecOfTheRequest asks one server in both forms, whatever its variant.
func TestServerAnswersInTheCodecOfTheRequest(t *testing.T) {
	for _, variant := range []string{"rest", "h1", "h1:codec=json"} {
		address, _ := serveOn(t, variant, &scripted{})
		in := &testpb.TestRequest{Body: []byte("hi")}
		for _, c := range []*codec{protobuf, json} {
			body, err := c.encode(in)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.Post("http://"+address+"/unary", c.message+"; charset=utf-8", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			response.Body.Close()
			var out testpb.TestResponse
			if err := errors.Join(err, c.decode(answer, &out)); err != nil || string(out.Body) != "hi" || response.Header.Get("Content-Type") != c.message {
				t.Errorf("%s in %s: %v, %q as %s", variant, c.name, err, answer, response.Header.Get("Content-Type"))
			}
		}
	}
}

func TestErrorsInJSON(t *testing.T) {
	address := serve(t, &scripted{})
	for name, ask := range map[string]struct{ contentType, accept, body string }{
		"by Content-Type": {"application/json", "*/*", `{"nonsense":1}`},
		"by Accept":       {"application/x-protobuf", "application/json", "\xff"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/unary", strings.NewReader(ask.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", ask.contentType)
		request.Header.Set("Accept", ask.accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var st spb.Status
		if err := protojson.Unmarshal(body, &st); err != nil || st.Code != int32(codes.InvalidArgument) || response.Header.Get("Content-Type") != json.status {
			t.Errorf("%s: %q as %s, %v", name, body, response.Header.Get("Content-Type"), err)
		}
	}
}

// TestJSONMessageLimit pins that a message of bytes which fits in protobuf fits in JSON.
func TestJSONMessageLimit(t *testing.T) {
	fits := &testpb.TestRequest{Body: make([]byte, protobuf.maxBytes-1<<10)}
	if size := int64(proto.Size(fits)); size > protobuf.maxBytes {
		t.Fatalf("%d bytes", size)
	}
	if _, err := json.marshal(fits); err != nil {
		t.Error(err)
	}
}

// TestIndexListsOperations asks as a browser does.
func TestIndexListsOperations(t *testing.T) {
	address := serve(t, &scripted{})
	for path, want := range map[string]int{"/": http.StatusOK, "/favicon.ico": http.StatusNotFound} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want || !strings.Contains(string(body), "POST /server-stream") {
			t.Errorf("%s: HTTP %d, %q, %v", path, response.StatusCode, body, err)
		}
		if tried := fmt.Sprintf("http://%s/unary", address); path == "/" && (!strings.Contains(string(body), tried) || !strings.Contains(string(body), "TestService\n")) {
			t.Errorf("the page shows neither %s nor the service: %q", tried, body)
		}
	}
}
