package grpcstack

import (
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
	"wirelab.dev/internal/wire/workload/store/storepb"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// counted is a message that notes by which methods it was read and written.
type counted struct {
	*storepb.Chunk
	written, read int
}

func (c *counted) MarshalVT() ([]byte, error) {
	c.written++
	return c.Chunk.MarshalVT()
}

func (c *counted) MarshalToSizedBufferVT(p []byte) (int, error) {
	c.written++
	return c.Chunk.MarshalToSizedBufferVT(p)
}

func (c *counted) UnmarshalVT(p []byte) error {
	c.read++
	return c.Chunk.UnmarshalVT(p)
}

// inSecondForm is the first codec behind the second's interface.
type inSecondForm struct{ encoding.Codec }

func (c inSecondForm) Marshal(v any) (mem.BufferSlice, error) {
	data, err := c.Codec.Marshal(v)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (c inSecondForm) Unmarshal(data mem.BufferSlice, v any) error {
	return c.Codec.Unmarshal(data.Materialize(), v)
}

var codecs = map[string]encoding.CodecV2{codecVT1: inSecondForm{firstCodec{}}, codecVT2: newSecondCodec()}

// TestCodecsAgree writes with each codec what package proto reads, and the reverse.
func TestCodecsAgree(t *testing.T) {
	long := make([]byte, 100<<10)
	for _, message := range []proto.Message{
		&echopb.Payload{Id: 7, Data: []byte("x")}, &echopb.Payload{Data: long}, &storepb.Chunk{Data: long},
		&userspb.User{Id: "1", Tags: []string{"a", "b"}, Address: &userspb.Address{City: "C"}},
		&grpc_health_v1.HealthCheckRequest{Service: "without vtprotobuf"},
	} {
		for name, codec := range codecs {
			data, err := codec.Marshal(message)
			if err != nil {
				t.Fatalf("%s: %T: %v", name, message, err)
			}
			back := proto.Clone(message) // reading must replace what is there
			proto.Reset(back)
			if err := proto.Unmarshal(data.Materialize(), back); err != nil || !proto.Equal(back, message) {
				t.Errorf("%s: %T was written as something else: %v", name, message, err)
			}
			back = proto.Clone(message)
			if err := codec.Unmarshal(data, back); err != nil || !proto.Equal(back, message) {
				t.Errorf("%s: %T was read as something else: %v", name, message, err)
			}
			data.Free()
		}
	}
}

// TestCodecsUseVT makes sure that they are what they are called.
func TestCodecsUseVT(t *testing.T) {
	for name, codec := range codecs {
		for _, size := range []int{10, 100 << 10} {
			m := &counted{Chunk: &storepb.Chunk{Data: make([]byte, size)}}
			data, err := codec.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.Unmarshal(data, m); err != nil {
				t.Fatal(err)
			}
			if m.written != 1 || m.read != 1 || len(m.Data) != size {
				t.Errorf("%s: %d bytes were written %d times and read %d times by vtprotobuf, and came back as %d", name, size, m.written, m.read, len(m.Data))
			}
		}
	}
}

// TestUsedMessagesKeepTheirMemory reads into a message that has been read into.
func TestUsedMessagesKeepTheirMemory(t *testing.T) {
	for name, codec := range codecs {
		m := &storepb.Chunk{}
		read := func(payload string) {
			t.Helper()
			data, err := codec.Marshal(&storepb.Chunk{Data: []byte(payload)})
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.Unmarshal(data, m); err != nil || string(m.Data) != payload {
				t.Errorf("%s: %q came as %q: %v", name, payload, m.Data, err)
			}
		}
		read("the first and longest")
		first := &m.Data[0]
		read("the second")
		if &m.Data[0] != first {
			t.Errorf("%s: a second message lies in other memory than the first", name)
		}
		read("")
	}
}

// TestLeversCarryCalls pulls each lever, and all.
func TestLeversCarryCalls(t *testing.T) {
	for _, variant := range []string{
		"grpc:codec=vt1", "grpc:codec=vt2", "grpc:recv-pool=off", "grpc:window=16MiB", "grpc:buffers=256KiB",
		"grpc:codec=vt2,window=16MiB,buffers=256KiB,tls=on",
	} {
		client := dialTest(t, variant, serve(t, variant, &whoAsks{calls: map[string]int{}}))
		in := &echopb.Payload{Id: 1, Data: make([]byte, 1<<20)}
		out, err := echopb.NewEchoServiceClient(client).Echo(t.Context(), in)
		if err != nil || !proto.Equal(in, out) {
			t.Errorf("%s: the answer differs: %v", variant, err)
		}
	}
}

func TestWrongLevers(t *testing.T) {
	for _, variant := range []string{"grpc:codec=json", "grpc:window=4GiB", "grpc:buffers=many", "grpc:buffers=1GiB"} {
		if _, err := Stack.NewServer(parse(t, variant)); err == nil {
			t.Errorf("NewServer took %s", variant)
		}
		if _, err := Stack.NewClient(t.Context(), parse(t, variant), stack.Target{Address: "127.0.0.1:1"}); err == nil {
			t.Errorf("NewClient took %s", variant)
		}
	}
}
