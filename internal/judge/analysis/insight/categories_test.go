package insight

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

func frames(texts ...string) []record.Frame {
	var all []record.Frame
	for _, text := range texts {
		name, kernel := strings.CutPrefix(text, "k:")
		f := record.Frame{Function: name}
		if kernel {
			f.In = record.InKernel
		}
		all = append(all, f)
	}
	return all
}

// TestUsualCategories sorts stacks as they were sampled, the outermost function first.
func TestUsualCategories(t *testing.T) {
	cpu, off := BuiltInCategories().cpuSorter(), BuiltInCategories().offCPUSorter()
	for want, stacks := range map[string][][]record.Frame{
		"protocol layer": {
			frames("runtime.goexit", "google.golang.org/grpc.(*Server).handleStream", "golang.org/x/net/http2/hpack.(*Encoder).WriteField", "runtime.mapaccess1", "aeshashbody"),
			frames("wirelab.dev/rpc/h2.(*Conn).read", "slices.Sort"),
			frames("std::thread::spawn", "ntex_h2::dispatcher::Dispatcher::call", "x"),
		},
		"serialisation":            {frames("google.golang.org/grpc.(*Server).x", "google.golang.org/protobuf/proto.UnmarshalOptions.unmarshal"), frames("a.b", "wirelab.dev/internal/wire/workload/echo/echopb.(*EchoRequest).UnmarshalVT")},
		"allocation":               {frames("google.golang.org/grpc.x", "runtime.newobject", "runtime.mallocgc", "runtime.memclrNoHeapPointers")},
		"garbage collection":       {frames("runtime.mallocgc", "runtime.gcAssistAlloc", "runtime.scanobject"), frames("runtime.gcBgMarkWorker")},
		"memory copy":              {frames("google.golang.org/grpc.x", "runtime.memmove"), frames("syscall.Write", "k:tcp_sendmsg_locked", "k:_copy_from_iter")},
		"Go scheduler":             {frames("runtime.mcall", "runtime.park_m", "runtime.schedule", "runtime.findRunnable", "runtime.netpoll")},
		"threads and locks":        {frames("wirelab_peer_rust::main", "tokio::runtime::scheduler::run", "x"), frames("grpc::CompletionQueue::Next", "gpr_mu_lock", "pthread_mutex_lock")},
		"growing goroutine stacks": {frames("google.golang.org/grpc.x", "runtime.morestack", "runtime.newstack", "runtime.copystack", "runtime.adjustframe", "runtime.pcvalue")},
		"TLS":                      {frames("crypto/tls.(*Conn).Write", "crypto/internal/fips140/aes/gcm.seal")},
		"system-call entry":        {frames("syscall.Write", "internal/runtime/syscall/linux.Syscall6"), frames("syscall.Write", "k:entry_SYSCALL_64_after_hwframe", "k:do_syscall_64", "k:ksys_write")},
		"network stack in the kernel": {
			frames("syscall.Write", "k:do_syscall_64", "k:tcp_sendmsg", "k:something_unheard_of"),
			frames("syscall.Write", "k:handle_softirqs", "k:net_rx_action", "k:skb_defer_free_flush"),
		},
		"wake-ups and locks in the kernel": {
			frames("runtime.netpoll", "k:do_epoll_wait", "k:schedule", "k:__schedule", "k:finish_task_switch.isra.0"),
			frames("syscall.Write", "k:tcp_rcv_established", "k:sock_def_readable", "k:_raw_spin_unlock_irqrestore"),
		},
		"I/O wait":        {frames("runtime.netpoll", "k:__x64_sys_epoll_pwait", "k:do_epoll_wait", "k:ep_send_events")},
		"page faults":     {frames("runtime.mallocgc", "k:asm_exc_page_fault", "k:handle_mm_fault", "k:get_page_from_freelist")},
		"the application": {frames("google.golang.org/grpc.x", "wirelab.dev/internal/wire/workload/echo.(*server).Echo")},
		"wirelab itself":  {frames("wirelab.dev/internal/run/load.(*client).closedLoop", "wirelab.dev/internal/base/clock.Now", "time.Since")},
		Unclassified:      {frames("main", "somebody::else"), nil},
	} {
		for _, stack := range stacks {
			if got := cpu.categoryOf(stack); got != want {
				t.Errorf("%v: %s, want %s", stack, got, want)
			}
		}
	}
	for want, stack := range map[string][]record.Frame{
		"data from the network":            frames("runtime.netpoll", "k:__x64_sys_epoll_pwait", "k:do_epoll_wait", "k:schedule_hrtimeout_range_clock", "k:schedule"),
		"nothing to do, or a lock (futex)": frames("[libc.so.6]", "k:__x64_sys_futex", "k:do_futex", "k:schedule"),
		"nothing to do":                    frames("runtime.stopm", "runtime.futex", "k:__x64_sys_futex", "k:do_futex", "k:schedule"),
		"a sleep":                          frames("sleepOnce", "k:__x64_sys_nanosleep", "k:do_nanosleep", "k:schedule"),
		"a lock":                           frames("main.get", "internal/sync.(*Mutex).lockSlow", "runtime.semacquire1", "runtime.gopark"),
		"an answer from another service":   frames("main.fetch", "net/http.(*Client).Do", "net/http.(*persistConn).roundTrip", "runtime.selectgo", "runtime.gopark"),
		"the rest of a message":            frames("main.handle", "google.golang.org/grpc/internal/transport.(*recvBufferReader).Read", "runtime.chanrecv1", "runtime.gopark"),
		"room in a socket's buffer":        frames("main.download", "internal/poll.(*FD).Write", "internal/poll.(*pollDesc).waitWrite", "runtime.netpollblock", "runtime.gopark"),
		"a channel":                        frames("main.get", "runtime.chanrecv1", "runtime.chanrecv", "runtime.gopark"),
		"other goroutines":                 frames("main.get", "sync.(*WaitGroup).Wait", "sync.runtime_SemacquireWaitGroup", "runtime.semacquire1", "runtime.gopark"),
		"the garbage collector":            frames("main.get", "runtime.mallocgc", "runtime.gcAssistAlloc", "runtime.gcParkAssist", "runtime.goparkunlock", "runtime.gopark"),
		"a condition":                      frames("main", "pthread_cond_wait", "k:__x64_sys_futex", "k:do_futex", "k:schedule"),
	} {
		if got := off.categoryOf(stack); got != want {
			t.Errorf("%v waits for %s, want %s", stack, got, want)
		}
	}
}

func TestCategoriesOfOnesOwn(t *testing.T) {
	const off = "offcpu: [{category: b, functions: [b]}]\n"
	mine, err := ParseCategories([]byte("cpu: [{category: a, in: program, functions: ['a', 'b']}]\n" + off))
	if err != nil {
		t.Fatal(err)
	}
	if got := mine.cpuSorter().categoryOf(frames("b.c", "x")); got != "a" {
		t.Errorf("b.c is %s", got)
	}
	if got := mine.cpuSorter().categoryOf(frames("k:b")); got != Unclassified {
		t.Errorf("the kernel's b is %s", got)
	}
	for text, want := range map[string]string{
		"":  "cpu: the table has no rules",
		off: "cpu: the table has no rules",
		"cpu: [{category: '', functions: [a]}]\n" + off:             "cpu, rule 1: the category is",
		"cpu: [{category: a, in: heaven, functions: [a]}]\n" + off:  `in is "heaven": write kernel or program`,
		"cpu: [{category: a}]\n" + off:                              `the rule of category "a" has no functions`,
		"cpu: [{category: a, functions: ['(']}]\n" + off:            "missing closing",
		"cpu: [{category: a, functions: [a], colour: red}]\n" + off: "colour",
		"cpu: [{category: unclassified, functions: [a]}]\n" + off:   "category",
	} {
		if _, err := ParseCategories([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// TestAServicesOwnFunctionsAreTheApplication, whatever they are called. Libraries keep their categories.
func TestAServicesOwnFunctionsAreTheApplication(t *testing.T) {
	const variant = record.ServiceStack + ":wire=h1"
	server, client := categoriesOf(variant, ServerEnd, BuiltInCategories()).cpuSorter(), categoriesOf(variant, ClientEnd, BuiltInCategories()).cpuSorter()
	for _, one := range []struct {
		stack          []record.Frame
		server, client string
	}{
		{frames("net/http.(*conn).serve", "main.handle"), applicationCategory, ownCategory},
		{frames("net/http.(*conn).serve", "shop.example/api.List", "strconv.Itoa"), applicationCategory, "protocol layer"},
		{frames("main", "ngx_worker_process_cycle", "ngx_http_process_request"), applicationCategory, Unclassified},
		{frames("net/http.(*conn).serve", "slices.Sort"), "protocol layer", "protocol layer"},
		{frames("main.handle", "runtime.mallocgc"), "allocation", "allocation"},
		{frames("k:x64_sys_call", "k:something_unheard_of"), "system-call entry", "system-call entry"},
		{frames("[unknown program]"), Unclassified, Unclassified},
		{[]record.Frame{{Function: "_PyEval_EvalFrameDefault", In: "libpython3.11.so.1.0"}}, applicationCategory, Unclassified},
		{[]record.Frame{{Function: "serve"}, {Function: "__libc_malloc", In: "libc.so.6"}, {Function: "[libc.so.6]", In: "libc.so.6"}}, "allocation", "allocation"},
		{[]record.Frame{{Function: "serve"}, {Function: "cfree", In: "libc.so.6"}}, "allocation", "allocation"},
	} {
		if got := server.categoryOf(one.stack); got != one.server {
			t.Errorf("%v of a service: %s, want %s", one.stack, got, one.server)
		}
		if got := client.categoryOf(one.stack); got != one.client {
			t.Errorf("%v of the client: %s, want %s", one.stack, got, one.client)
		}
	}
}

// TestGoroutinesWithoutARequest are told from handlers, if a known library runs these.
func TestGoroutinesWithoutARequest(t *testing.T) {
	handler, refresh := frames("runtime.goexit", "net/http.(*conn).serve", "main.handle"), frames("runtime.goexit", "main.refresh", "crypto/sha256.Sum256")
	seen := func(stacks ...[]record.Frame) []*record.Seen {
		all := &record.Stacks{}
		for _, frames := range stacks {
			one := record.Stack{}
			for range frames {
				one.Frames = append(one.Frames, len(all.Frames)+len(one.Frames))
			}
			all.Frames, all.Stacks = append(all.Frames, frames...), append(all.Stacks, one)
		}
		return []*record.Seen{{}, {Stacks: all}}
	}
	of := func(end string, stacks ...[]record.Frame) *sorter {
		return categoriesOf(record.ServiceStack+":wire=h1", end, BuiltInCategories()).cpuSorter().lookForHandlers(seen(stacks...))
	}
	for _, one := range []struct {
		sorter *sorter
		stack  []record.Frame
		want   string
	}{
		{of(ServerEnd, handler, refresh), refresh, backgroundCategory},
		{of(ServerEnd, handler, refresh), frames("runtime.goexit", "runtime.main", "main.main"), backgroundCategory},
		{of(ServerEnd, handler, refresh), handler, applicationCategory},
		{of(ServerEnd, handler, refresh), frames("runtime.goexit", "runtime.gcBgMarkWorker"), "garbage collection"},
		{of(ServerEnd, refresh), refresh, "TLS"}, // it may be a handler
		{of(ClientEnd, handler, refresh), refresh, "TLS"},
	} {
		if got := one.sorter.categoryOf(one.stack); got != one.want {
			t.Errorf("%v: %s, want %s", one.stack, got, one.want)
		}
	}
}

func FuzzParseCategories(f *testing.F) {
	f.Add(BuiltInCategoriesText)
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = ParseCategories(text) })
}
