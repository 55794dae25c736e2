package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/machine/host"
)

// Looking back must not keep a run waiting.
const (
	earlierRuns  = 50 // whose manifests are read, in a folder
	earlierRead  = 5  // whose records are read
	earlierBytes = 16 << 20
)

// Outlook says what a plan of cells could find, at the noise of earlier runs in the folders. A run
// that cannot be read is left out.
func Outlook(cells []record.Cell, until *record.Until, folders []string) string {
	forecast := compare.NewForecast(cells, until)
	if forecast == nil {
		return "" // it compares nothing
	}
	same, others := earlierHere(cells, folders)
	for _, run := range same[:min(len(same), earlierRead)] {
		if !forecast.KnowsEnough() {
			learn(forecast, run)
		}
	}
	for _, run := range others[:min(len(others), earlierRead)] {
		if forecast.NeedsOthers() {
			learn(forecast, run)
		}
	}
	p, noise := forecast.Power()
	where := "of other cells in "
	if noise.OfSame {
		where = "of the same cells in "
	}
	if len(noise.Runs) == 1 {
		where += noise.Runs[0]
	} else {
		where += fmt.Sprintf("%d earlier runs", len(noise.Runs))
	}
	return advice.Outlook(p, forecast.Repeats(), where)
}

// earlierHere returns the runs of this machine, the newest first: those with cells of the plan,
// and the others.
func earlierHere(cells []record.Cell, folders []string) (same, others []string) {
	planned := map[string]bool{}
	for _, cell := range cells {
		planned[cell.Key()] = true
	}
	here := host.Describe()
	type started struct {
		directory string
		at        time.Time
		isSame    bool
	}
	var runs []started
	for _, folder := range folders {
		for _, directory := range record.Newest(folder, earlierRuns, earlierBytes) {
			var there host.Info
			m, err := record.ReadManifest(directory)
			if err != nil || json.Unmarshal(m.Host, &there) != nil || !here.IsMachineOf(&there) {
				continue
			}
			isSame := slices.ContainsFunc(m.Order, func(t record.PlannedTrial) bool { return planned[t.Cell] })
			runs = append(runs, started{directory, m.Started, isSame})
		}
	}
	slices.SortStableFunc(runs, func(a, b started) int { return b.at.Compare(a.at) })
	for _, run := range runs {
		if run.isSame {
			same = append(same, run.directory)
		} else {
			others = append(others, run.directory)
		}
	}
	return same, others
}

// learn lets the forecast learn from a run, if it can be read.
func learn(forecast *compare.Forecast, directory string) {
	run, err := record.Open(directory)
	if err != nil {
		return
	}
	var records []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return
		}
		records = append(records, &r)
	}
	forecast.Learn(directory, &run.Manifest, records)
}
