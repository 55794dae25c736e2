package record

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// A Listing names the runs in a folder.
type Listing struct {
	Runs []ListedRun `json:"runs"` // the latest begun first
}

// A ListedRun describes a run by its manifest.
type ListedRun struct {
	Directory string    `json:"directory"` // path of the run
	Name      string    `json:"name"`      // name of the scenario; compare and load for these commands
	Title     string    `json:"title"`     // what was measured; empty for a load
	Status    Status    `json:"status" jsonschema:"enum=running,enum=done,enum=interrupted,enum=failed"`
	Started   time.Time `json:"started"` // when the run began
	Tool      string    `json:"tool"`    // version of wirelab
	Command   []string  `json:"command"` // the command line
}

// Bounds of a listing. A folder may have more and larger runs, which are left out.
const (
	maxListed      = 200
	maxListedBytes = 1 << 30
)

// RunsFolder is the folder in which wirelab makes a run's directory by default.
const RunsFolder = "wirelab-runs"

// List lists the runs in a folder and in its [RunsFolder]. It leaves out runs with unreadable manifests.
func List(folder string) (Listing, error) {
	if _, err := os.ReadDir(folder); err != nil {
		return Listing{}, err
	}
	var found Listing
	for _, in := range []string{folder, filepath.Join(folder, RunsFolder)} {
		for _, directory := range Newest(in, maxListed, maxListedBytes) {
			m, err := ReadManifest(directory)
			if err != nil {
				continue
			}
			found.Runs = append(found.Runs, ListedRun{
				Directory: directory, Name: m.Name, Title: m.Title, Status: m.Status, Started: m.Started, Tool: m.Tool, Command: m.Command,
			})
		}
	}
	slices.SortStableFunc(found.Runs, func(a, b ListedRun) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Directory, b.Directory))
	})
	found.Runs = found.Runs[:min(len(found.Runs), maxListed)]
	return found, nil
}

// Write prints one line per run.
func (l Listing) Write(to io.Writer) error {
	if len(l.Runs) == 0 {
		_, err := fmt.Fprintln(to, "no runs: measure one, as with wirelab compare")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, r := range l.Runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Directory, r.Status, r.Started.Local().Format(time.DateTime), cmp.Or(r.Title, r.Name))
	}
	return w.Flush()
}
