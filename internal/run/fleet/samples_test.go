package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// The clients' files go when their rows are in one file, and stay when they cannot be merged.
func TestSamplesAreKeptInAnyCase(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(part string, of *remoteWorker) error
		want  string
	}{
		"merged":  {func(string, *remoteWorker) error { return nil }, ""},
		"damaged": {func(part string, _ *remoteWorker) error { return os.WriteFile(part, []byte("no samples"), 0o600) }, "not a samples file"},
		"missing": {func(_ string, of *remoteWorker) error {
			of.last.Samples, of.last.SamplesMissing = nil, "no space left"
			return nil
		}, "b: no space left"},
	} {
		directory := t.TempDir()
		whole := filepath.Join(directory, "00001.parquet")
		s := &trialStage{samples: whole}
		group, r := &clientGroup{}, &record.Record{Fleet: &record.Fleet{}}
		for _, agent := range []string{"a", "b"} {
			m := &remoteWorker{on: &leasedAgent{Card: protocol.Card{Name: agent}}, samples: sampleFile{path: samplesPath(whole, agent)}, last: endedMessage{Samples: &sentSamples{}}}
			log := latency.NewSampleLog(0, 1)
			log.Append(latency.Sample{Start: 1})
			if err := latency.WriteParquet(m.samples.path, []*latency.SampleLog{log}); err != nil {
				t.Fatal(err)
			}
			log.Close()
			group.members = append(group.members, m)
			r.Fleet.Clients = append(r.Fleet.Clients, record.FleetClient{Agent: record.Agent{Name: agent}, Requests: 1})
		}
		if err := test.spoil(samplesPath(whole, "b"), group.members[1]); err != nil {
			t.Fatal(err)
		}
		s.started = []worker.TrialEnd{group}
		s.keepSamples(r)
		files, err := filepath.Glob(filepath.Join(directory, "*"))
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(r.Warnings, "\n")
		switch {
		case test.want == "" && (len(files) != 1 || files[0] != whole || r.SamplesFile != whole || said != ""):
			t.Errorf("%s: files %v, samples in %q, warnings %q", name, files, r.SamplesFile, said)
		case test.want != "" && (len(files) != 2 || r.SamplesFile != "" || !strings.Contains(said, test.want) || !strings.Contains(said, "the samples of a are in samples/00001-a.parquet")):
			t.Errorf("%s: files %v, samples in %q, warnings %q", name, files, r.SamplesFile, said)
		}
	}
}
