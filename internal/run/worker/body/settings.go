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
	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// Settings returns the settings of both ends of a variant in a trial with one client. It changes
// the runtime of this process to that of a worker, so that it reports the settings of a worker.
func Settings(variant string) ([]tuning.Setting, error) {
	s, err := newTask(worker.Spec{Stack: variant, Client: &worker.ClientSpec{Load: worker.Load{Model: scenario.Closed}}})
	if err != nil {
		return nil, err
	}
	setRuntime("")
	end, err := s.own.NewServer(catalog.OwnOptions(s.variant))
	if err != nil {
		return nil, err
	}
	defer func() { _ = end.Close() }() // it never listened
	_, elsewhere := end.(stack.ExternalServer)
	server, err := s.serverSettings(elsewhere)
	if err != nil {
		return nil, err
	}
	if !stack.HasOwnClient(s.variant) {
		return server, nil // the record of a trial has the settings of its client
	}
	mode := catalog.ConnectionOf(s.own, s.variant, scenario.Connection{})
	client, err := s.clientSettings(stack.Target{
		Connections: mode.Want(1), Lifecycle: conn.LifecycleOf(mode.Mode),
		Trust: secure.Trust{RootPEM: []byte("the server's")},
	})
	return tuning.Join(server, client), err
}

// serverSettings returns the settings of a server. It leaves out the settings of this process if
// the server runs elsewhere, as another program.
func (s *task) serverSettings(elsewhere bool) ([]tuning.Setting, error) {
	all, err := stack.SettingsOf(s.own, catalog.OwnOptions(s.variant), stack.Target{})
	all = tuning.At(tuning.Server, append(all, congestionSetting(s.variant)...))
	if !elsewhere {
		all = append(all, processSettings(tuning.Server)...)
	}
	return all, err
}

// clientSettings returns the settings of a client of the target.
func (s *task) clientSettings(t stack.Target) ([]tuning.Setting, error) {
	all, err := stack.SettingsOf(s.own, catalog.OwnOptions(s.variant), t)
	all = append(all, congestionSetting(s.variant)...)
	all = append(tuning.At(tuning.Client, all), processSettings(tuning.Client)...)
	if s.Client.Load.Model != scenario.Closed {
		threads := runtime.GOMAXPROCS(0)
		all = append(all, tuning.Setting{
			Side: tuning.Client, Name: "GOMAXPROCS", Value: strconv.Itoa(threads), Default: strconv.Itoa(threads - spinningThread),
			Why: "one more than CPUs: while a client spins towards its instant, the network poller has a thread that the kernel can wake",
		})
	}
	return all, err
}

// congestionSetting is the setting of both ends' sockets, if the variant has it.
func congestionSetting(v scenario.Variant) []tuning.Setting {
	name := catalog.Congestion(v)
	if name == "" {
		return nil
	}
	return []tuning.Setting{{Side: tuning.Both, Name: "TCP_CONGESTION", Value: name, Default: congestion.Default(), Why: "the variant's option cc"}}
}

// spinningThread is added to GOMAXPROCS in clients that wait for instants.
const spinningThread = 1

// Defaults of Go's runtime (package runtime, GOGC and MemProfileRate, and its maxSmallSize).
const (
	defaultGOGC       = 100
	defaultMemProfile = 512 << 10
	defaultSmall      = 32 << 10
)

// processSettings returns the settings of this process's runtime, read from the runtime.
func processSettings(end string) []tuning.Setting {
	var all []tuning.Setting
	add := func(name, value, library, why string) {
		all = append(all, tuning.Setting{Side: end, Name: name, Value: value, Default: library, Why: why})
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		add("GOMEMLIMIT", strconv.FormatInt(limit, 10), "no limit", "large calls in flight must not take the machine down")
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
			why = tuning.FromEnvironment
		}
		add("GOGC", text, strconv.Itoa(defaultGOGC), why)
	}
	if limit := rebuild.SmallObject(); limit != defaultSmall {
		add("runtime maxSmallSize", strconv.Itoa(limit), strconv.Itoa(defaultSmall), "the variant's option smallobject: the runtime was rebuilt with another table of size classes")
	}
	// These variables can make every call log, or behave otherwise.
	for _, name := range []string{"GODEBUG", "GRPC_GO_LOG_SEVERITY_LEVEL"} {
		if value := os.Getenv(name); value != "" {
			add(name, value, "empty", tuning.FromEnvironment)
		}
	}
	if probe.HugePagesDenied() {
		add("PR_SET_THP_DISABLE", "1", "0", tuning.FromEnvironment)
	}
	if rate := runtime.MemProfileRate; rate != defaultMemProfile {
		add("runtime.MemProfileRate", strconv.Itoa(rate), strconv.Itoa(defaultMemProfile), "allocations are sampled only where they are asked for, and then all")
	}
	return all
}
