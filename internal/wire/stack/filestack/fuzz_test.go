package filestack

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
	"wirelab.dev/rpc/call/wire"
)

// echoing answers a server stream with its request's body.
type echoing struct {
	testpb.UnimplementedTestServiceServer
}

func (echoing) ServerStream(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
	return stream.Send(&testpb.TestResponse{Body: in.Body})
}

// FuzzPaths asks a folder for anything: what it finds lies in it.
func FuzzPaths(f *testing.F) {
	request, err := proto.Marshal(&testpb.TestRequest{Body: []byte("x")})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		pathOf(testpb.TestService_ServerStream_FullMethodName, request), pathOf(testpb.TestService_ServerStream_FullMethodName, nil),
		pathOf(testpb.TestService_Unary_FullMethodName, nil), "/../x", "/x/../../x00", "/make.sock", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		methods := &stack.Methods{}
		testpb.RegisterTestServiceServer(methods, echoing{})
		home := &folder{path: t.TempDir(), methods: methods}
		path, err := home.findOrMake(t.Context(), url)
		if err != nil {
			return
		}
		if within, err := filepath.Rel(home.path, path); err != nil || !filepath.IsLocal(within) || strings.Contains(within, "..") {
			t.Errorf("%q is %s", url, path)
		}
		if again, err := home.findOrMake(t.Context(), url); err != nil || again != path || home.files != 1 {
			t.Errorf("%q is %s, and then %s, of %d files: %v", url, path, again, home.files, err)
		}
	})
}

// FuzzMessages reads any file: every message is one that was written, and it ends.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'h', 'i', 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte("0\x00000")) // ends behind its prefix
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, file []byte) {
		d := &download{ctx: t.Context(), from: bufio.NewReader(bytes.NewReader(file))}
		for rest := file; ; {
			err := d.read()
			if errors.Is(err, io.EOF) && len(rest) > 0 || err == nil && len(rest) < wire.PrefixLen+len(d.data) {
				t.Fatalf("%d bytes are left: read %d, %v", len(rest), len(d.data), err)
			}
			if err != nil {
				return
			}
			if rest[0] != 0 {
				t.Fatalf("a message with the flag %d was read", rest[0])
			}
			if !bytes.Equal(rest[wire.PrefixLen:][:len(d.data)], d.data) {
				t.Fatalf("%q was read as %q", rest, d.data)
			}
			rest = rest[wire.PrefixLen+len(d.data):]
		}
	})
}
