package fleet_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// rack is network namespaces on one bridge: what machines on one switch are.
type rack struct {
	t     *testing.T
	hub   *os.File // the namespace that has the bridge
	slots int
}

const bridge = "rack"

func newRack(t *testing.T) *rack {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("makes network namespaces, as only root may")
	}
	r := &rack{t: t}
	r.hub = r.namespace(func() error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return addressOf(bridge, "10.99.0.1/24")
	})
	return r
}

// namespace makes a network namespace that lives as long as the test, or a process in it.
func (r *rack) namespace(furnish func() error) *os.File {
	r.t.Helper()
	var file *os.File
	err := host.OnDisposableThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())); err != nil {
			return err
		}
		loopback, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(loopback); err != nil {
			return err
		}
		return furnish()
	})
	if err != nil {
		r.t.Skipf("no network namespaces can be made here: %v", err)
	}
	r.t.Cleanup(func() { _ = file.Close() })
	return file
}

func addressOf(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	ip, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, ip); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// machine adds a namespace that is plugged into the bridge, and returns its address.
func (r *rack) machine() (in host.StartOptions, address string) {
	r.t.Helper()
	r.slots++
	outer, inner := fmt.Sprintf("out%d", r.slots), fmt.Sprintf("in%d", r.slots)
	address = fmt.Sprintf("10.99.0.%d", 10+r.slots)
	own := r.namespace(func() error { return nil })
	err := r.inside(r.hub, func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: outer}, PeerName: inner}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		peer, err := netlink.LinkByName(inner)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetNsFd(peer, int(own.Fd())); err != nil {
			return err
		}
		near, err := netlink.LinkByName(outer)
		if err != nil {
			return err
		}
		switch0, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(near, switch0); err != nil {
			return err
		}
		return netlink.LinkSetUp(near)
	})
	if err == nil {
		err = r.inside(own, func() error { return addressOf(inner, address+"/24") })
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return surroundings(own), address
}

func (r *rack) inside(namespace *os.File, do func() error) error {
	return host.OnDisposableThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

func surroundings(namespace *os.File) host.StartOptions {
	return host.StartOptions{Enter: func() error { return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET) }}
}

// racked is a fleet in a rack.
type racked struct {
	*rack
	agentToken, token string
}

// fleet starts a hub, which goes over TLS, and the server's agent.
func (r *rack) fleet() *racked {
	r.t.Helper()
	state := r.t.TempDir()
	started := play(r.t, surroundings(r.hub), "hub", state, "10.99.0.1:0")
	started.says("is ready")
	f := &racked{r, joinFile(state), hub.TokenFile(state, protocol.RoleController)}
	f.join("s", "role=server")
	return f
}

// join adds an agent on a machine of its own.
func (f *racked) join(name, labels string) {
	f.t.Helper()
	in, address := f.machine()
	agent := play(f.t, in, "agent", f.agentToken, name, labels, address, f.t.TempDir())
	agent.says("is in the fleet")
}

// measure measures a scenario with the chosen clients.
func (f *racked) measure(s *scenario.Scenario, clients string) (records []record.Record, directory string) {
	f.t.Helper()
	return f.measureBy(labPlan{Scenario: s, Server: "role=server", Client: clients, Patient: true})
}

func (f *racked) measureBy(plan labPlan) (records []record.Record, directory string) {
	f.t.Helper()
	directory = filepath.Join(f.t.TempDir(), "run")
	lab := play(f.t, surroundings(f.hub), "lab", f.token, directory, planFile(f.t, plan))
	lab.says("done")
	<-lab.ended
	return recordsIn(f.t, directory), directory
}

// newRackOfFive is a fleet with a server, four clients, and one that is alone.
func newRackOfFive(t *testing.T) *racked {
	f := newRack(t).fleet()
	for i := range 4 {
		f.join(fmt.Sprintf("c%d", i), "role=client")
	}
	f.join("alone", "role=alone")
	return f
}

// Four clients on machines of their own do what one does: as many requests, due at the same
// instants, and a histogram that is that of all samples.
func TestFourAgentsAreOneClient(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds with real processes")
	}
	f5 := newRackOfFive(t)
	counted := scene(t, "tcp", 10, scenario.Load{Model: scenario.Closed, Requests: 50})
	counted.Parts[0].Samples = true
	total := scene(t, "grpc:tls=on,h3", 10, scenario.Load{Model: scenario.Closed, Total: 503})
	open := scene(t, "tcp", 12, scenario.Load{Model: scenario.Open, Rate: 800, Arrivals: scenario.Poisson, Duration: scenario.Duration(1e9)})
	burst := scene(t, "tcp", 10, scenario.Load{Model: scenario.Burst, Requests: 101})
	s := counted
	for i, other := range []*scenario.Scenario{total, open, burst} {
		part := other.Parts[0]
		part.Name = fmt.Sprintf("part%d", i)
		if part.Load.Model == scenario.Open {
			part.WarmUp = scenario.WarmUp{} // so that the window begins where the schedule does
		}
		s.Parts = append(s.Parts, part)
	}
	four, dir := f5.measure(s, "role=client*4")
	one, _ := f5.measure(s, "role=alone")
	byCell := map[string]record.Record{}
	for _, o := range one {
		byCell[o.Cell.Key()] = o
	}
	for _, f := range four {
		o := byCell[f.Cell.Key()]
		if f.Failure != "" || o.Failure != "" {
			t.Fatalf("%s: four: %q; one: %q", f.Cell.Key(), f.Failure, o.Failure)
		}
		if f.Requests != o.Requests || f.Requests == 0 {
			t.Errorf("%s: four made %d requests, one %d", f.Cell.Key(), f.Requests, o.Requests)
		}
		if f.Pacing != nil && f.Pacing.Scheduled != o.Pacing.Scheduled {
			t.Errorf("%s: four were due to make %d calls, one %d", f.Cell.Key(), f.Pacing.Scheduled, o.Pacing.Scheduled)
		}
		if len(f.Errors) > 0 {
			t.Errorf("%s: %v", f.Cell.Key(), f.Errors)
		}
		expectSumOfClients(t, &f)
		if f.Cell.Part == "part" {
			expectHistogramOfSamples(t, &f, dir)
		}
	}
}

// expectSumOfClients fails the test unless the clients together are what the record says.
func expectSumOfClients(t *testing.T, r *record.Record) {
	t.Helper()
	var requests int64
	clients := 0
	for _, c := range r.Fleet.Clients {
		requests += c.Requests
		clients += c.Clients
		if off := max(c.Clock.OffsetNS, -c.Clock.OffsetNS); off > c.Clock.ErrorNS {
			t.Errorf("%s: a clock that is ours is %d ns off, ± %d", c.Name, c.Clock.OffsetNS, c.Clock.ErrorNS)
		}
	}
	if requests != r.Requests || clients != r.Cell.Clients || len(r.Fleet.Clients) != r.Cell.Agents {
		t.Errorf("%s: %d requests of %d clients of %d agents make %d of %d of %d", r.Cell.Key(), requests, clients, len(r.Fleet.Clients), r.Requests, r.Cell.Clients, r.Cell.Agents)
	}
}

// expectHistogramOfSamples fails the test unless the merged histogram is that of all samples.
func expectHistogramOfSamples(t *testing.T, r *record.Record, dir string) {
	t.Helper()
	type row struct {
		Start   int64  `parquet:"start_ns"`
		Service int64  `parquet:"service_ns"`
		Agent   string `parquet:"agent"`
	}
	all := latency.NewRecorder()
	defer all.Close()
	rows, err := parquet.ReadFile[row](filepath.Join(dir, r.SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(rows, func(a, b row) int { return cmp.Compare(a.Start, b.Start) }) {
		t.Error("the samples are not in the order of time")
	}
	of := map[string]int64{}
	for _, one := range rows {
		all.Record(one.Service)
		of[one.Agent]++
	}
	for _, c := range r.Fleet.Clients {
		if of[c.Name] != c.Requests {
			t.Errorf("%d samples are of %s, which made %d requests", of[c.Name], c.Name, c.Requests)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "samples")); err != nil || len(files) != 1 {
		t.Errorf("the folder of samples has %v, want one file (%v)", files, err)
	}
	want, err := latency.NewHistogram(all).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	if want.Histogram != r.Service.Histogram || want.Count != r.Service.Count || want.Sum != r.Service.Sum {
		t.Errorf("the samples are %d, of %d ns; the merged histogram has %d, of %d ns", want.Count, want.Sum, r.Service.Count, r.Service.Sum)
	}
}

// Two equal variants are measured by turns, with four clients on machines of their own and with one: both
// find a ratio of 1, and four clients have the figures of one. How busy the machine is decides how well that
// can be known: it is printed, and judged by nobody (make fleet-turns).
func TestFourAgentsByTurns(t *testing.T) {
	var runs int
	if _, err := fmt.Sscan(os.Getenv("WIRELAB_PAIRS"), &runs); err != nil {
		t.Skip("measures for minutes: WIRELAB_PAIRS says how many runs")
	}
	f := newRackOfFive(t)
	s := scene(t, "grpc,grpc:gogc=100", 8, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(1e9)})
	s.Parts[0].Repeats = 5
	figures := map[string]func(*record.Record) float64{
		"mean service time": func(r *record.Record) float64 { return float64(r.Service.Sum) / float64(r.Service.Count) },
		"requests":          func(r *record.Record) float64 { return float64(r.Requests) },
		"server CPU per call": func(r *record.Record) float64 {
			return float64(*r.Server.UserNS+*r.Server.SystemNS) / float64(r.Requests)
		},
	}
	four, one, near := map[string][]float64{}, map[string][]float64{}, map[string]int{}
	for range runs {
		for clients, into := range map[string]map[string][]float64{"role=client*4": four, "role=alone": one} {
			records, _ := f.measureBy(labPlan{Scenario: s, Server: "role=server", Client: clients, Patient: true, Block: true})
			blocks, slices, off := map[int][]*record.Record{}, 0, int64(0)
			for i := range records {
				r := &records[i]
				if r.Failure != "" {
					t.Fatal(r.Failure)
				}
				blocks[r.Block] = append(blocks[r.Block], r)
				slices += len(r.Slices)
				for _, c := range r.Fleet.Clients {
					off = max(off, c.Clock.ErrorNS)
				}
				for name, of := range figures {
					into[name] = append(into[name], math.Log(of(r)))
				}
			}
			var ratios []float64
			for _, block := range blocks {
				if scatter, known := matrix.NewSliceScatter(block); known {
					ratios = append(ratios, scatter.Means[1]-scatter.Means[0])
				}
			}
			log, err := stats.MeanInterval(ratios, 0.95)
			if err != nil {
				t.Logf("%s: no ratio, of %d slices: %v", clients, slices, err)
				continue
			}
			if math.Abs(log.Estimate) < 0.05 {
				near[clients]++
			}
			t.Logf("%s: ratio of equal variants %.3f (%.3f to %.3f), of %d blocks with %d slices; clocks ± %d µs", clients,
				math.Exp(log.Estimate), math.Exp(log.Low), math.Exp(log.High), len(ratios), slices, off/1000)
		}
	}
	for clients, n := range near {
		t.Logf("%s: %d of %d ratios lie within 5 %% of 1", clients, n, runs)
	}
	for name := range figures {
		apart, err := stats.MeanInterval(four[name], 0.95)
		alone, wrong := stats.MeanInterval(one[name], 0.95)
		if err = cmp.Or(err, wrong); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, four to one: %.3f", name, math.Exp(apart.Estimate-alone.Estimate))
	}
}
