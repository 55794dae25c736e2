package report

import (
	"path/filepath"
	"testing"

	"wirelab.dev/internal/advice"
	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/judge"
	"wirelab.dev/internal/record"
)

// fixtureService is a run that wirelab load measured and that was kept, of a small server in
// Go that sleeps half a millisecond a call:
//
//	stalling  wirelab load -z 3s …, of one that answers nothing in the first 200 ms of a second
//	failing   wirelab load -z 3s --rps 800 -c 20 …, of one that says 503 for 300 ms in three seconds
//	steps     wirelab load -z 700ms --steps 1,4,16 …
func fixtureService(t *testing.T, name string) *Run {
	t.Helper()
	kept, err := record.Open(filepath.Join("testdata", "loads", name))
	if err != nil {
		t.Fatal(err)
	}
	var records []*record.Record
	for r, err := range kept.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &r)
	}
	judged := analysis.Judge(records, judge.Default())
	summary, err := analysis.Summarize(&kept.Manifest, judged)
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Summary: summary, Records: judged.Records, Answer: advice.Answer(summary), Advice: advice.Advise(summary), Directory: "results/" + name}
}
