package lab

import (
	"os"
	"path/filepath"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack/catalog"
)

// serverProgram returns the program of the trial's server.
func (t *trial) serverProgram() []string {
	if p, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign {
		return t.lab.Peers[p.Name]
	}
	return t.worker()
}

// clientProgram returns the program of the trial's client.
func (t *trial) clientProgram() []string {
	if p, foreign := catalog.ClientPeer(t.planned.Cell.Variant); foreign {
		return t.lab.Peers[p.Name]
	}
	return t.worker()
}

// serverSpec returns the spec of the trial's server.
func (t *trial) serverSpec() worker.Spec {
	spec := t.spec(worker.ServerRole, t.in.listenAddress())
	if p, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign {
		spec.Stack = catalog.ForPeer(t.planned.Cell.Variant, p, peer.Server).String()
	}
	return spec
}

// callingSpec returns the spec of the trial's client. A peer writes its calls to a file, which
// exists as long as the trial.
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

// callsFile is the file that a peer writes its calls to; nil: nobody writes any.
type callsFile struct{ folder string }

func (f *callsFile) remove() {
	if f != nil {
		_ = os.RemoveAll(f.folder) // it is in the folder for temporary files
	}
}
