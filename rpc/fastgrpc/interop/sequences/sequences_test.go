// Package sequences makes random calls with grpc-go's and fastgrpc's clients and servers in each
// pairing, and with creditrpc at both ends. It compares what both ends see of them, step by step:
// codes, messages, metadata, order.
//
//	script_test.go       draws what both ends do
//	play_test.go         lets both ends do that, one step at a time
//	act_test.go          carries out a step, and describes what the end sees
//	libraries_test.go    the pairings, and the link in memory between their ends
//	compare_test.go      finds what differs, and makes a script that shows it short
//	differences_test.go  the differences that the libraries' pages name
//
// A call plays in a bubble of testing/synctest, over a link in memory. The next step begins when all
// goroutines wait, and deadlines pass by the bubble's clock. So no outcome depends on the machine.
//
// A script that fails is printed in short. This plays the whole of it again, and prints all events:
//
//	go -C rpc/fastgrpc/interop test ./sequences -run TestSequences -v -seed=1 -number=731
package sequences

import (
	"flag"
	"io"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
)

var (
	seed   = flag.Uint64("seed", 1, "the seed of the scripts")
	update = flag.Bool("update", false, "write the pages")
	number = flag.Int("number", -1, "play only the script of this number, and print it and its events")
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // it logs invalid metadata
	m.Run()
}

// TestSequences wants that no script shows a difference that the page does not name. With JUDGES, it
// also wants that each difference that the page names is seen.
func TestSequences(t *testing.T) {
	if *number >= 0 {
		show(t, draw(*seed, uint64(*number)))
		return
	}
	scripts, all := 100, os.Getenv("JUDGES") != ""
	if all {
		scripts = 1500
	}
	for n := range scripts {
		judge(t, draw(*seed, uint64(n)), all)
	}
	for _, p := range pages {
		if !all {
			break
		}
		for _, d := range p.differences {
			t.Logf("%d plays of %s show: %s", d.seen, p.library, d.text)
			if d.seen == 0 {
				t.Errorf("no play shows %q: remove it from the table of %s, and run TestPage with -update", d.text, p.library)
			}
		}
	}
}

// TestPage wants that each page names the differences that are allowed, and no others.
func TestPage(t *testing.T) {
	for _, p := range pages {
		if *update {
			if err := os.WriteFile(p.file, []byte(p.write()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(p.file); err != nil || string(got) != p.write() {
			t.Errorf("%s is not what this test writes (%v): run it with -update", p.file, err)
		}
	}
}

// TestRepeats plays scripts twice and wants the same events.
func TestRepeats(t *testing.T) {
	for n := range uint64(50) {
		s := draw(*seed, n)
		for _, p := range append([]pairing{original}, pairings...) {
			if text := describe(p.name, play(t, p, s), p.name+" again", play(t, p, s)); text != "" {
				t.Errorf("%v%s", s, text)
			}
		}
	}
}

// TestPlanted wants that a server that loses trailers is found, and that the script is made short.
func TestPlanted(t *testing.T) {
	forgetful := grpcGo
	forgetful.newServer = func() listeningServer {
		return grpc.NewServer(grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, forgetfulStream{s})
		}))
	}
	p := pairing{name: "planted", client: grpcGo, server: forgetful}
	differs := func(s *script) bool { return compare(t, p, s) != "" }
	for n := range uint64(100) {
		s := draw(1, n)
		if !differs(s) {
			continue
		}
		small := shrink(s, differs)
		var left []operation
		for _, next := range small.steps {
			left = append(left, next.do)
		}
		t.Logf("%v%s", small, compare(t, p, small))
		if len(left) > 5 || len(left) >= len(s.steps) {
			t.Errorf("%d steps are left of %d, want fewer", len(left), len(s.steps))
		}
		return
	}
	t.Error("no script finds the server that loses trailers")
}

type forgetfulStream struct{ grpc.ServerStream }

func (forgetfulStream) SetTrailer(metadata.MD) {}
