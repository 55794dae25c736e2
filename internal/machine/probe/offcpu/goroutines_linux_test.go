package offcpu

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

const (
	playGoroutines = "goroutines"
	waiters        = 16
	naps           = 50
)

// waitInGoroutines lets goroutines wait for a lock, for a channel, and for a timer, as long and as often as
// TestEveryWaitOfAGoroutineIsSeen knows.
func waitInGoroutines() {
	var all sync.WaitGroup
	var lock sync.Mutex
	lock.Lock()
	for range waiters {
		all.Go(func() { takeLock(&lock) })
	}
	waitUntilParked("takeLock")
	time.Sleep(each)
	lock.Unlock()
	all.Wait()
	answers := make(chan int)
	for range waiters {
		all.Go(func() { receiveOnce(answers) })
	}
	waitUntilParked("receiveOnce")
	time.Sleep(each)
	for range waiters {
		answers <- 1
	}
	all.Wait()
	for range naps {
		napOnce()
	}
}

//go:noinline
func takeLock(lock *sync.Mutex) {
	lock.Lock()
	defer lock.Unlock()
	runtime.KeepAlive(lock)
}

//go:noinline
func receiveOnce(from chan int) { runtime.KeepAlive(<-from) }

//go:noinline
func napOnce() { time.Sleep(each) }

// waitUntilParked returns when all goroutines with a function wait.
func waitUntilParked(function string) {
	text := make([]byte, 1<<20)
	for parked := 0; parked < waiters; {
		runtime.Gosched()
		parked = 0
		for one := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
			head, frames, _ := strings.Cut(one, "\n")
			if strings.Contains(frames, "."+function+"(") && (strings.Contains(head, "[sync.Mutex.Lock") || strings.Contains(head, "[chan receive")) {
				parked++
			}
		}
	}
}

// TestEveryWaitOfAGoroutineIsSeen knows how often goroutines wait, for what, and how long at least.
func TestEveryWaitOfAGoroutineIsSeen(t *testing.T) {
	findings := watchSleeper(t, playGoroutines)
	if err := tryGoroutines(); err != nil {
		if !slices.ContainsFunc(findings.Server.Missing, func(text string) bool { return strings.HasPrefix(text, "waits of the goroutines of process ") }) {
			t.Errorf("goroutines are not watched, and nothing says so: %q", findings.Server.Missing)
		}
		t.Skip(err)
	}
	if !strings.HasSuffix(findings.Server.Method, goroutinesMethod) {
		t.Errorf("the method is %q", findings.Server.Method)
	}
	stacks := findings.Server.Stacks
	for _, want := range []struct {
		function, by string
		most         int64 // a goroutine that gets no lock waits again
	}{
		{"takeLock", "sync.(*Mutex).lockSlow", 1 << 40},
		{"receiveOnce", "runtime.chanrecv", waiters},
		{"napOnce", "time.Sleep", naps},
	} {
		count, waited, least := int64(0), int64(0), int64(waiters)
		if want.function == "napOnce" {
			least = naps
		}
		for _, stack := range stacks.Stacks {
			functions := stacks.Functions(stack)
			has := func(suffix string) bool {
				return slices.ContainsFunc(functions, func(f record.Frame) bool { return strings.HasSuffix(f.Function, suffix) })
			}
			if functions[len(functions)-1].Function == parkFunction && has("/offcpu."+want.function) && has(want.by) {
				count, waited = count+stack.Count, waited+stack.Weight
			}
		}
		t.Logf("%s: %d waits, %v", want.function, count, time.Duration(waited))
		if count < least || count > want.most || waited < least*int64(each) {
			t.Errorf("%s waited %d times for %v in %s, want %d times for %v at least", want.function, count, time.Duration(waited), want.by, least, time.Duration(least)*each)
		}
	}
}

// TestTheCallerIsAddedOnce: newer kernels know the caller of a function at its entry.
func TestTheCallerIsAddedOnce(t *testing.T) {
	for _, c := range []struct {
		caller      uint64
		stack, want []uint64
	}{
		{0, []uint64{1, 3}, []uint64{1, 3}},
		{2, []uint64{1, 3}, []uint64{1, 2, 3}},
		{2, []uint64{1, 2, 3}, []uint64{1, 2, 3}},
		{2, []uint64{1}, []uint64{1, 2}},
		{2, nil, nil},
	} {
		if got := (wait{caller: c.caller}).withCaller(c.stack); !slices.Equal(got, c.want) {
			t.Errorf("%v and caller %d: %v, want %v", c.stack, c.caller, got, c.want)
		}
	}
}

// TestManyWaitsAreThinnedOut: the waits that are kept stand for all.
func TestManyWaitsAreThinnedOut(t *testing.T) {
	const most, came = 8, 100
	var w waits
	for i := range came {
		w.add(wait{beginNS: int64(i)}, most)
		if len(w.list) >= most {
			t.Fatalf("%d waits are kept, want fewer than %d", len(w.list), most)
		}
	}
	if stand := int64(len(w.list)) * w.each; stand < came-w.each || stand > came {
		t.Errorf("%d waits stand for %d each, want %d in all", len(w.list), w.each, came)
	}
}

// BenchmarkGoroutineSwitch shows what two waits of a goroutine costs, with the probe and without it.
func BenchmarkGoroutineSwitch(b *testing.B) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for range ping {
			pong <- 1
		}
		close(pong)
	}()
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%v", watched), func(b *testing.B) {
			if watched {
				started, err := Start()
				if err != nil {
					b.Skip(err)
				}
				w := started.(*Watch)
				w.goroutines.watch(os.Getpid())
				if err := w.ends.AddProcess(0, os.Getpid()); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = w.session.Close() }()
			}
			for b.Loop() {
				ping <- 1
				<-pong
			}
		})
	}
	close(ping)
}
