package selftest

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

func TestWorkFollowsItsCourse(t *testing.T) {
	cache := &faultyRegistrar{serverPlayer: &serverPlayer{Work: time.Millisecond, WorkFor: time.Second}}
	ramp := &faultyRegistrar{serverPlayer: &serverPlayer{Work: time.Millisecond, RampFor: 2 * time.Second}}
	for _, c := range []struct {
		of    *faultyRegistrar
		since time.Duration
		want  time.Duration
	}{
		{cache, 0, time.Millisecond},
		{cache, 999 * time.Millisecond, time.Millisecond},
		{cache, time.Second, 0},
		{ramp, 0, 2 * time.Millisecond},
		{ramp, time.Second, 1500 * time.Microsecond},
		{ramp, 3 * time.Second, time.Millisecond},
	} {
		if got := c.of.sleepTime(c.since); got != c.want {
			t.Errorf("%+v after %v: %v, want %v", *c.of.serverPlayer, c.since, got, c.want)
		}
	}
}

func TestEveryNthIsSpoiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &faultyRegistrar{serverPlayer: &serverPlayer{FailEvery: 3, SpoilEvery: 2, CutEvery: 5}}
		var failed, spoiled, cut int
		for number := int64(1); number <= 30; number++ {
			if told.failOrSleep(number) != nil {
				failed++
			}
			answer := &echopb.Payload{Data: make([]byte, 8)}
			told.spoilAnswer(number, answer)
			if len(answer.Data) == 7 {
				cut++
			}
			if !bytes.Equal(answer.Data, make([]byte, len(answer.Data))) {
				spoiled++
			}
		}
		if failed != 10 || spoiled != 15 || cut != 6 {
			t.Errorf("of 30: %d failed, %d spoiled, %d cut; want 10, 15, 6", failed, spoiled, cut)
		}
	})
}

// A reader that stops after the head cannot have read the rest.
type counting struct {
	io.Reader
	read int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += n
	return n, err
}

func TestAnEarlyAnswerHasNotReadTheRequest(t *testing.T) {
	request := func(id uint64) *counting {
		whole, err := proto.Marshal(&echopb.Payload{Id: id, Data: make([]byte, 1000), Timestamp: 7})
		if err != nil {
			t.Fatal(err)
		}
		return &counting{Reader: bytes.NewReader(whole)}
	}
	for lie, most := range map[bool]int{true: 16, false: 2000} {
		server := &earlyAnswerPlayer{Lie: lie}
		if _, err := server.answer(request(1)); err != nil {
			t.Fatal(err)
		}
		second := request(300)
		answer, err := server.answer(second)
		if err != nil {
			t.Fatal(err)
		}
		var got echopb.Payload
		if err := proto.Unmarshal(answer, &got); err != nil || got.Id != 300 || len(got.Data) != 1000 {
			t.Errorf("lie %v: answered id %d with %d bytes, %v", lie, got.Id, len(got.Data), err)
		}
		if second.read > most || !lie && second.read < 1000 {
			t.Errorf("lie %v: read %d bytes of the request", lie, second.read)
		}
	}
}

func TestNamesAreKnown(t *testing.T) {
	ask := func(kind dnsmessage.Type) dnsmessage.Message {
		question := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName("server.wirelab.test."), Type: kind, Class: dnsmessage.ClassINET,
		}}}
		packed, err := question.Pack()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := nameServerAnswer(packed)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || m.ID != 7 || !m.Response {
			t.Fatalf("answer %+v, %v", m, err)
		}
		return m
	}
	if m := ask(dnsmessage.TypeA); len(m.Answers) != 1 || m.Answers[0].Body.(*dnsmessage.AResource).A != [4]byte{127, 0, 0, 1} {
		t.Errorf("A: %+v", m.Answers)
	}
	if m := ask(dnsmessage.TypeAAAA); len(m.Answers) != 0 {
		t.Errorf("AAAA: %+v", m.Answers)
	}
	if _, err := nameServerAnswer([]byte("no question")); err == nil {
		t.Error("what is no question has an answer")
	}
}

func TestSplitAnswersArriveWhole(t *testing.T) {
	near, far := net.Pipe()
	go func() { // ends with the pipe
		_, _ = splitWriter{far}.Write([]byte("answer"))
		_ = far.Close()
	}()
	first := make([]byte, 8)
	n, err := near.Read(first)
	if err != nil || n != 1 {
		t.Errorf("the first read got %d bytes, %v; want 1", n, err)
	}
	rest, err := io.ReadAll(near)
	if err != nil || string(first[:n])+string(rest) != "answer" {
		t.Errorf("got %q and %q, %v", first[:n], rest, err)
	}
}

func TestHeldAnswersArriveAtMultiples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { // ends with the pipe
			time.Sleep(3 * time.Millisecond)
			_, _ = batchWriter{far, 10 * time.Millisecond}.Write([]byte("answer"))
			_ = far.Close()
		}()
		began := time.Now()
		if _, err := io.ReadAll(near); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("an answer of 3 ms arrived after %v, want 10 ms", took)
		}
	})
}
