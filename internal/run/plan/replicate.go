package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Replication says which studies are to be replicated, and how long that may take. It is kept
// beside the runs, so that it can be continued.
type Replication struct {
	Studies   []string      `json:"studies"`
	Quick     bool          `json:"quick"`
	All       bool          `json:"all"`
	Budget    time.Duration `json:"budget_ns"`
	Yardstick []string      `json:"yardstick"`
	Peers     []string      `json:"peers,omitempty"`

	Directory string               `json:"-"`
	Scenarios []*scenario.Scenario `json:"-"` // of Studies
}

const (
	// quickWindow is long enough for a thousand calls of the slowest cell whose P99 is in a claim.
	quickWindow = scenario.Duration(400 * time.Millisecond)
	quickBudget = 15 * time.Minute
	fullBudget  = 5 * time.Hour
	// The most repeats of a claim that is still undecided.
	mostQuickRepeats, mostRepeatsOfClaim = 9, 30

	replicationFile = "replicate.json"
)

// ClaimingStudies returns the studies that test published claims.
func (l Library) ClaimingStudies() []string {
	return slices.DeleteFunc(StudyNames(), func(name string) bool {
		s, err := l.Study(name)
		return err != nil || !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return c.Row != "" })
	})
}

func (r *Replication) named() Named { return Named{r.Yardstick, r.Peers} }

// Choose checks the studies that are named, and fills in what was left out.
func (r *Replication) Choose(l Library, names []string) error {
	if r.Studies = names; len(names) == 0 {
		r.Studies = l.ClaimingStudies()
	}
	var parts []scenario.Part
	for i, name := range r.Studies {
		if slices.Contains(r.Studies[:i], name) {
			return fmt.Errorf("%s is named twice", name)
		}
		s, err := l.Scenario(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return r.wants(&c) }) {
			return fmt.Errorf("%s claims nothing that was published: name one of %s, or give --all for its other claims", name, strings.Join(l.ClaimingStudies(), ", "))
		}
		parts = append(parts, s.Parts...)
		r.Scenarios = append(r.Scenarios, s)
	}
	if err := r.named().Check(&scenario.Scenario{Name: strings.Join(r.Studies, ", "), Parts: parts}); err != nil {
		return err
	}
	switch {
	case r.Budget < 0:
		return fmt.Errorf("--budget: want a time above 0, found %v", r.Budget)
	case r.Budget == 0 && r.Quick:
		r.Budget = quickBudget
	case r.Budget == 0:
		r.Budget = fullBudget
	}
	return nil
}

func (r *Replication) wants(c *scenario.Claim) bool { return c.Row != "" || r.All }

// Begin makes the directory, and writes the replication into it.
func (r *Replication) Begin() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if r.Directory == "" {
		r.Directory, err = record.MakeFree(Directory("replicate", time.Now()))
	} else {
		err = os.MkdirAll(r.Directory, 0o755)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(r.Directory, replicationFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("-o: %s holds a replication already: continue it with --resume %s, or name another directory", r.Directory, r.Directory)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// Resume reads a replication that was begun.
func (r *Replication) Resume(l Library, directory string) error {
	text, err := os.ReadFile(filepath.Join(directory, replicationFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(directory, replicationFile), err)
	}
	r.Directory = directory
	return r.Choose(l, r.Studies)
}

// A StudyPlan holds what the claims of one study need.
type StudyPlan struct {
	Scenario  *scenario.Scenario
	Until     *record.Until
	Warnings  []string
	Directory string
	Resume    bool // the run in Directory was begun
}

// Plan plans what the claims of a study need. A study that was begun goes on.
func (r *Replication) Plan(ctx context.Context, l Library, name string, progress io.Writer) (StudyPlan, error) {
	what, err := l.Scenario(name)
	if err != nil {
		return StudyPlan{}, err
	}
	study := StudyPlan{Directory: filepath.Join(r.Directory, what.Name)}
	if run, err := record.Open(study.Directory); err == nil {
		study.Scenario, err = scenario.Parse(study.Directory+"/manifest.json", run.Manifest.Scenario, l.Vocabulary())
		study.Until, study.Resume = run.Manifest.Until, true
		return study, err
	}
	if r.Quick {
		what = what.Brief(quickWindow)
	}
	what, study.Warnings = r.named().Install(ctx, what, progress)
	if study.Scenario, err = what.ForClaims(r.wants, leastRepeats); err != nil {
		return StudyPlan{}, fmt.Errorf("%s: %w", name, err)
	}
	most := mostRepeatsOfClaim
	if r.Quick {
		most = mostQuickRepeats
	}
	study.Until = &record.Until{Claims: true, Looks: matrix.Looks(leastRepeats, most), Begun: 1}
	return study, nil
}

// TimeFor returns the time for study i, in nanoseconds, after the replication has run for ran. A
// study that ends early leaves its time to the others. trials counts the first look of each study.
func (r *Replication) TimeFor(i int, trials []int, ran time.Duration) int64 {
	left, rest := max(0, r.Budget-ran), 0
	for _, n := range trials[i:] {
		rest += n
	}
	return max(1, int64(float64(left)*float64(trials[i])/float64(rest)))
}
