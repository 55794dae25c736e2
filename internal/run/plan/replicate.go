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
	"wirelab.dev/internal/wire/peer"
)

// A Replication says which studies to replicate, and in how much time. It is stored in a file.
type Replication struct {
	Studies   []string      `json:"studies"`
	Quick     bool          `json:"quick"`
	All       bool          `json:"all"`
	Budget    time.Duration `json:"budget_ns"`
	Yardstick []string      `json:"yardstick"`
	Peers     []string      `json:"peers,omitempty"`

	Directory string               `json:"-"`
	Scenarios []*scenario.Scenario `json:"-"` // the scenarios of Studies
}

const (
	// quickTrialWindow times three is long enough for 1,000 calls even in the slowest cell that needs
	// a P99.
	quickTrialWindow = scenario.Duration(400 * time.Millisecond)
	quickBudget      = 15 * time.Minute
	fullBudget       = 5 * time.Hour
	// Limits on the repeats of a claim that is still undecided.
	maxQuickRepeats, maxClaimRepeats = 9, 30

	replicationFile = "replicate.json"
)

// StudiesWithClaims returns the names of the studies that test published claims.
func (l Library) StudiesWithClaims() []string {
	return slices.DeleteFunc(StudyNames(), func(name string) bool {
		s, err := l.ReadStudy(name)
		return err != nil || !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return c.Row != "" })
	})
}

func (r *Replication) namedPrograms() NamedPrograms { return NamedPrograms{r.Yardstick, r.Peers} }

// ChooseStudies checks the named studies. Without names, it chooses all studies that test published
// claims. It also sets the default of the budget.
func (r *Replication) ChooseStudies(l Library, names []string) error {
	if r.Studies = names; len(names) == 0 {
		r.Studies = l.StudiesWithClaims()
	}
	var parts []scenario.Part
	for i, name := range r.Studies {
		if slices.Contains(r.Studies[:i], name) {
			return fmt.Errorf("the study %s is named twice: name each study once", name)
		}
		s, err := l.FindScenario(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Claims, func(c scenario.Claim) bool { return r.includesClaim(&c) }) {
			return fmt.Errorf("%s has no published claim: name one of %s, or give --all to test its other claims", name, strings.Join(l.StudiesWithClaims(), ", "))
		}
		parts = append(parts, s.Parts...)
		r.Scenarios = append(r.Scenarios, s)
	}
	if err := r.namedPrograms().CheckNames(&scenario.Scenario{Name: strings.Join(r.Studies, ", "), Parts: parts}); err != nil {
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

func (r *Replication) includesClaim(c *scenario.Claim) bool { return c.Row != "" || r.All }

// WriteNew makes the directory of a new replication, and writes the file that stores it.
func (r *Replication) WriteNew() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if r.Directory == "" {
		r.Directory, err = record.MakeFree(DefaultRunDirectory("replicate", time.Now()))
	} else {
		err = os.MkdirAll(r.Directory, 0o755)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(r.Directory, replicationFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("-o: %s already holds a replication: continue it with --resume %s, or name another directory", r.Directory, r.Directory)
	}
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// Resume reads an earlier replication from its directory.
func (r *Replication) Resume(l Library, directory string) error {
	text, err := os.ReadFile(filepath.Join(directory, replicationFile))
	if err != nil {
		return fmt.Errorf("%w: name the directory of an earlier replication", err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(directory, replicationFile), err)
	}
	r.Directory = directory
	return r.ChooseStudies(l, r.Studies)
}

// A StudyPlan holds the scenario and the looks for testing the claims of one study.
type StudyPlan struct {
	Scenario  *scenario.Scenario
	Until     *record.Until
	Warnings  []string
	Directory string
	Resume    bool // true if Directory contains a run to resume
}

// PlanStudy plans a run that tests the claims of a study. It resumes the run if there is one.
func (r *Replication) PlanStudy(ctx context.Context, l Library, name string, progress io.Writer) (StudyPlan, error) {
	what, err := l.FindScenario(name)
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
		what = what.WithShortWindows(quickTrialWindow)
	}
	programs := r.namedPrograms()
	if len(programs.Peers) == 0 { // Prepare leaves out the peers that cannot be built here
		programs.Peers = peer.Names()
	}
	what, study.Warnings = programs.InstallAndAdd(ctx, what, progress)
	if study.Scenario, err = what.ForClaims(r.includesClaim, preview.Repeats); err != nil {
		return StudyPlan{}, fmt.Errorf("%s: %w", name, err)
	}
	most := maxClaimRepeats
	if r.Quick {
		most = maxQuickRepeats
	}
	study.Until = &record.Until{Claims: true, Looks: append([]record.InterimLook{preview}, matrix.PlanLooks(minRepeats, most)...), Begun: 1}
	return study, nil
}

// preview is a look after one repeat. It decides no claim, but finds the claims that this machine
// cannot test, so that their cells are not repeated.
var preview = record.InterimLook{Repeats: 1, Level: 1e-9}

// SetTime sets the time of study i, and reports whether the study is measured now. The first pass
// through the studies takes only the first look at each. The second pass repeats the cells of claims
// that are open. It divides the time that is left by the number of such claims. spent holds the time
// that each study has used, and ran the time of all.
func (r *Replication) SetTime(secondPass bool, i int, untils []*record.Until, spent []time.Duration, ran time.Duration) bool {
	u := untils[i]
	if !secondPass {
		if u.Ended == "" { // not resumed, or resumed before its end
			u.TimeNS = firstLookOnly
		}
		return true
	}
	open := openAfterFirstLook(u)
	if open == 0 || ran >= r.Budget {
		return false
	}
	rest := 0
	for _, later := range untils[i:] {
		rest += openAfterFirstLook(later)
	}
	u.TimeNS, u.Ended = int64(spent[i]+(r.Budget-ran)*time.Duration(open)/time.Duration(rest)), ""
	return true
}

// openAfterFirstLook returns the number of undecided claims of a study whose run ended after its first
// look although more repeats may decide some.
func openAfterFirstLook(u *record.Until) int {
	if u.TimeNS != firstLookOnly || u.Ended != record.EndedByTime {
		return 0
	}
	return *u.Looks[u.Begun-1].Open
}
