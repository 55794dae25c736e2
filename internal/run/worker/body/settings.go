package body

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// Settings returns the settings of a variant's server and client in a trial with one client. It
// also applies a worker's runtime settings to this process, from which it then reads them.
func Settings(variant string) ([]tuning.Setting, error) {
	s, err := wirelab().newTask(worker.Spec{Stack: variant, Client: &worker.ClientSpec{Load: worker.Load{Model: scenario.Closed}}})
	if err != nil {
		return nil, err
	}
	applyRuntimeSettings("")
	end, err := s.own.NewServer(catalog.OwnOptions(s.variant))
	if err != nil {
		return nil, err
	}
	defer func() { _ = end.Close() }() // the server never listens
	_, elsewhere := end.(stack.ExternalServer)
	server, err := s.serverSettings(elsewhere)
	if err != nil {
		return nil, err
	}
	if !stack.HasOwnClient(s.variant) {
		return server, nil // the client is another program
	}
	mode := catalog.ConnectionOf(s.own, s.variant, scenario.Connection{})
	client, err := s.clientSettings(stack.Target{
		Connections: mode.ConnectionCount(1), Lifecycle: conn.LifecycleOf(mode.Mode),
		Trust: secure.Trust{RootPEM: []byte("the server's")},
	})
	return tuning.Join(server, client), err
}

// serverSettings returns a server's settings. If elsewhere is true, the server is another program,
// and the settings of this process are left out.
func (s *task) serverSettings(elsewhere bool) ([]tuning.Setting, error) {
	all, err := stack.SettingsOf(s.own, catalog.OwnOptions(s.variant), stack.Target{})
	all = tuning.SettingsOf(tuning.Server, append(all, commonSettings(s.variant)...))
	if !elsewhere {
		all = append(all, processSettings(tuning.Server)...)
	}
	return all, err
}

// clientSettings returns the settings of a client that calls target t.
func (s *task) clientSettings(t stack.Target) ([]tuning.Setting, error) {
	all, err := stack.SettingsOf(s.own, catalog.OwnOptions(s.variant), t)
	all = append(all, commonSettings(s.variant)...)
	all = append(tuning.SettingsOf(tuning.Client, all), processSettings(tuning.Client)...)
	if s.Client.Load.Model != scenario.Closed {
		threads := runtime.GOMAXPROCS(0)
		all = append(all, tuning.Setting{
			Side: tuning.Client, Name: "GOMAXPROCS", Value: strconv.Itoa(threads), Default: strconv.Itoa(threads - extraSpinThreads),
			Why: "one more thread than CPUs: a client spins until its next call is due, and meanwhile another thread must poll the network",
		})
	}
	return all, err
}

// commonSettings returns the settings that the variant's options make, if every stack has the option.
func commonSettings(v scenario.Variant) (all []tuning.Setting) {
	if name := catalog.Congestion(v); name != "" {
		all = append(all, tuning.Setting{Side: tuning.Both, Name: "TCP_CONGESTION", Value: name, Default: sockopt.Default(), Why: "the variant's option cc"})
	}
	if catalog.Socket(v).Nagle {
		all = append(all, tuning.Setting{Side: tuning.Both, Name: "TCP_NODELAY", Value: "off", Default: "on", Why: "the variant's option nagle"})
	}
	if threads := catalog.Threads(v); threads != 0 {
		all = append(all, tuning.Setting{Side: tuning.Both, Name: "GOMAXPROCS", Value: strconv.Itoa(threads), Default: "one per CPU", Why: "the variant's option gomaxprocs"})
	}
	return all
}

// extraSpinThreads is added to GOMAXPROCS for clients that spin until the next call is due.
const extraSpinThreads = 1

// Defaults of Go's runtime: GOGC, runtime.MemProfileRate, and the runtime's constant maxSmallSize.
const (
	defaultGOGC           = 100
	defaultMemProfileRate = 512 << 10
	defaultMaxSmallSize   = 32 << 10
)

// processSettings returns the settings of this process that differ from the Go runtime's defaults.
func processSettings(end string) []tuning.Setting {
	var all []tuning.Setting
	add := func(name, value, library, why string) {
		all = append(all, tuning.Setting{Side: end, Name: name, Value: value, Default: library, Why: why})
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		why := "large calls in flight must not exhaust the machine's memory"
		if limit != worker.MemoryLimit {
			why = "the variant's option gomemlimit, or the environment of wirelab, sets it"
		}
		add("GOMEMLIMIT", strconv.FormatInt(limit, 10), "no limit", why)
	}
	gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(gogc)
	if percent := gogc[0].Value; percent.Kind() == metrics.KindUint64 && percent.Uint64() != defaultGOGC {
		text := strconv.FormatUint(percent.Uint64(), 10)
		if percent.Uint64() == math.MaxUint64 {
			text = "off"
		}
		why := "the variant's option gogc"
		if os.Getenv("GOGC") != "" {
			why = tuning.ReasonEnvironment
		}
		add("GOGC", text, strconv.Itoa(defaultGOGC), why)
	}
	if limit := rebuild.SmallObjectLimit(); limit != defaultMaxSmallSize {
		add("runtime maxSmallSize", strconv.Itoa(limit), strconv.Itoa(defaultMaxSmallSize), "the variant's option smallobject: the runtime was rebuilt with another table of size classes")
	}
	// These variables can change how calls behave, for example make each call write a log.
	for _, name := range []string{"GODEBUG", "GRPC_GO_LOG_SEVERITY_LEVEL"} {
		if value := os.Getenv(name); value != "" {
			add(name, value, "empty", tuning.ReasonEnvironment)
		}
	}
	if probe.HugePagesDenied() {
		add("PR_SET_THP_DISABLE", "1", "0", tuning.ReasonEnvironment)
	}
	if rate := runtime.MemProfileRate; rate != defaultMemProfileRate {
		add("runtime.MemProfileRate", strconv.Itoa(rate), strconv.Itoa(defaultMemProfileRate), "allocations are sampled only if the probe alloc asks for it, and then all of them")
	}
	return all
}
