package fastgrpc

import (
	"bytes"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

func TestUnmarshalAliased(t *testing.T) {
	body := bytes.Repeat([]byte{5}, 5000)
	in := &testgrpc.SimpleRequest{
		ResponseSize: 7, Payload: &testgrpc.Payload{Body: body}, FillUsername: true,
		ResponseStatus: &testgrpc.EchoStatus{Message: string(body)},
	}
	data, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &testgrpc.SimpleRequest{ResponseSize: 99} // to be forgotten
	if err := unmarshalAliased(data, out); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(in, out) {
		t.Fatalf("got %v", out)
	}
	data[bytes.IndexByte(data, 5)] = 6
	if out.Payload.Body[0] != 6 {
		t.Error("the body is a copy")
	}
}

// FuzzUnmarshalAliased compares with package proto.
func FuzzUnmarshalAliased(f *testing.F) {
	for _, m := range []proto.Message{
		request(bytes.Repeat([]byte{1}, 3000)),
		&testgrpc.SimpleRequest{ResponseSize: 1, ResponseStatus: &testgrpc.EchoStatus{Code: 3, Message: string(make([]byte, 2000))}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(0))
		f.Add(append(data, data...), uint16(10))
	}
	f.Fuzz(func(t *testing.T, data []byte, grow uint16) {
		// A long body in the middle makes sure that something is aliased.
		long, err := proto.Marshal(request(make([]byte, int(grow))))
		if err != nil {
			t.Fatal(err)
		}
		data = append(append([]byte(nil), data...), append(long, data...)...)
		want, got := new(testgrpc.SimpleRequest), new(testgrpc.SimpleRequest)
		wantErr, gotErr := proto.Unmarshal(data, want), unmarshalAliased(data, got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("error %v, package proto %v", gotErr, wantErr)
		}
		if wantErr == nil && !proto.Equal(want, got) {
			t.Fatalf("got %v, package proto %v", got, want)
		}
	})
}
