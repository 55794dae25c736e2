package lab

import (
	"cmp"
	"os"
	"path/filepath"

	"wirelab.dev/internal/host"
	"wirelab.dev/internal/peer"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/stack/catalog"
	"wirelab.dev/internal/worker"
)

// serverProgram is the program of the trial's server.
func (t *trial) serverProgram() []string {
	if p, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign {
		return t.lab.Peers[p.Name]
	}
	return t.worker()
}

// clientProgram is the program of the trial's client.
func (t *trial) clientProgram() []string {
	if p, foreign := catalog.ClientPeer(t.planned.Cell.Variant); foreign {
		return t.lab.Peers[p.Name]
	}
	return t.worker()
}

// serverSpec is what the trial's server is told.
func (t *trial) serverSpec() worker.Spec {
	spec := t.spec(worker.ServerRole, t.in.listenAddress())
	if p, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign {
		spec.Stack = catalog.ForPeer(t.planned.Cell.Variant, p, peer.Server).String()
	}
	return spec
}

// callingSpec is what the trial's client is told. A peer writes its calls to a file, which
// is there as long as the trial.
func (t *trial) callingSpec(r *record.Record, server *server) (worker.Spec, *callsFile, error) {
	spec := t.spec(worker.ClientRole, server.address)
	spec.Client = t.clientSpec(r)
	spec.Client.RootPEM, spec.Client.SkipVerify = string(server.trust.RootPEM), server.trust.SkipVerify
	p, foreign := catalog.ClientPeer(t.planned.Cell.Variant)
	if !foreign {
		return spec, nil, nil
	}
	spec.Stack = catalog.ForPeer(t.planned.Cell.Variant, p, peer.Client).String()
	folder, err := os.MkdirTemp("", "wirelab-calls-")
	if err != nil {
		return spec, nil, err
	}
	spec.Client.CallsFile = filepath.Join(folder, "calls")
	return spec, &callsFile{folder}, nil
}

// callsFile is where a peer writes its calls; nil where none does.
type callsFile struct{ folder string }

func (f *callsFile) remove() {
	if f != nil {
		_ = os.RemoveAll(f.folder) // it is in the folder for temporary files
	}
}

// outsidePeriod is the time between two readings of another process, which cost more than
// a process's own.
const outsidePeriod = 5 * probe.DefaultPeriod / 2

// outsider reads what a peer costs, which need not know itself; nil for wirelab's own
// workers, which do.
type outsider struct {
	pid     int
	sampler *probe.Sampler
}

func outsideOf(pid int) *outsider {
	ofPeer := func() (probe.Usage, error) { return probe.OfProcess(pid) }
	return &outsider{pid, probe.StartSampler(probe.WithStops(ofPeer), outsidePeriod)}
}

// costs are what an outsider saw; nil: nothing.
type costs struct {
	usage     *probe.Series
	allowance *host.Allowance
}

// lookBack ends looking, while the peer is still there.
func (o *outsider) lookBack() (seen costs) {
	if o == nil {
		return seen
	}
	usage := o.sampler.Stop()
	seen.usage = &usage
	if allowance, err := host.AllowanceOf(o.pid); err == nil { // otherwise it is not known
		seen.allowance = &allowance
	}
	return seen
}

// addTo fills in what the client did not say of its cost.
func (c costs) addTo(r *worker.ClientResult) {
	if c.usage == nil {
		return
	}
	if window, err := c.usage.Between(r.BeginNS, r.EndNS); err == nil { // otherwise it is not known
		r.Usage = cmp.Or(r.Usage, &window)
	}
	if course := r.Course; course != nil {
		course.ClientCPUNS = c.usage.Stretches(r.BeginNS+course.BeginNS, course.StretchNS, len(course.Calls))
	}
	r.Allowance = cmp.Or(r.Allowance, c.allowance)
}
