package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/internal/wire/workload/own"
	"wirelab.dev/studies"
)

// A Library reads scenarios. A scenario is a built-in study or a file.
type Library struct {
	CheckColumn func(name string) error // checks the name of a column of a study's table
	HasOwn      bool                    // whether this program contains a service of its own (package own)
}

// Vocabulary returns checks for the names in a scenario, such as the names of stacks and workloads.
func (l Library) Vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant: checkVariant,
		Secure:       catalog.Secure,
		CheckWorkload: func(text string) error {
			w, _, err := workloads.Find(text)
			if err == nil && w.Info().Name == own.Name && !l.HasOwn {
				return own.ErrNotHere
			}
			return err
		},
		Sized:        IsSized,
		CheckPayload: checkPayload,
		Published:    readPublished,
		CheckColumn:  l.CheckColumn,
	}
}

// readPublished reads published figures from a built-in study's table or from a CSV file.
func readPublished(name string) (*claim.PublishedTable, error) {
	text, err := studies.FS.ReadFile("published/" + name + ".csv")
	if err != nil {
		if text, err = ReadFile(name, maxScenarioBytes); err != nil {
			return nil, fmt.Errorf("%q is neither a built-in study with published figures nor a readable CSV file: %w", name, err)
		}
	}
	table, err := claim.ReadPublishedTable(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

const studyExtension = ".yaml"

// ReadStudy reads the built-in study with a name.
func (l Library) ReadStudy(name string) (*scenario.Scenario, error) {
	data, err := studies.FS.ReadFile(name + studyExtension)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// StudyNames returns the names of the built-in studies.
func StudyNames() []string {
	files, err := studies.FS.ReadDir(".")
	if err != nil {
		panic(err) // ReadDir cannot fail, since the program contains the studies
	}
	var names []string
	for _, f := range files {
		if !f.IsDir() { // the only folder holds published figures
			names = append(names, strings.TrimSuffix(f.Name(), studyExtension))
		}
	}
	return names
}

// FindScenario reads the built-in study with a name, or the scenario file with that name.
func (l Library) FindScenario(name string) (*scenario.Scenario, error) {
	study, err := l.ReadStudy(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return study, err
	}
	data, err := ReadFile(name, maxScenarioBytes)
	if errors.Is(err, fs.ErrNotExist) {
		hint := ""
		if meant, found := spelling.ClosestWord(name, StudyNames()); found {
			hint = "; did you mean " + meant + "?"
		}
		return nil, fmt.Errorf("%s is neither a study (%s) nor a file%s", name, strings.Join(StudyNames(), ", "), hint)
	}
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// maxScenarioBytes bounds the size of a scenario file and of a CSV file. A limit is needed, because
// a scenario may name a device whose content never ends.
const maxScenarioBytes = 8 << 20

// ReadFile reads a file or a named pipe. It fails if the content is longer than most bytes.
func ReadFile(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d MiB: want a smaller file", name, most>>20)
	}
	return data, err
}

func checkVariant(v scenario.Variant, p scenario.Part) error {
	if err := catalog.Check(v); err != nil {
		return err // the other checks work only with valid options
	}
	return cmp.Or(catalog.CheckConnection(v, p.Connection), catalog.CheckNetwork(v, p.Network), CheckCallKinds(v, p.Workload), catalog.CheckLoad(v, p))
}

// IsSized reports whether a workload has message sizes. An unknown workload counts as sized.
func IsSized(text string) bool {
	w, _, err := workloads.Find(text)
	return err != nil || w.Info().Sized
}

func checkPayload(p scenario.Part, payload scenario.Payload) error {
	w, settings, err := workloads.Find(p.Workload)
	if err != nil {
		return err
	}
	return w.Check(workload.Parameters{
		RequestBytes: int(payload.Request), ResponseBytes: int(payload.Response), Settings: settings, Definition: p.Definition,
	})
}

// CheckCallKinds returns an error if a variant cannot make a kind of call that the workload makes.
func CheckCallKinds(v scenario.Variant, text string) error {
	s, err := catalog.Find(v.Stack)
	if err != nil {
		return err
	}
	w, settings, err := workloads.Find(text)
	if err != nil {
		return err
	}
	if _, pools := w.(workload.Pooling); catalog.PoolsMessages(v) && !pools {
		return fmt.Errorf("variant %s: %s has no messages to reuse: set messages=pooled only with workloads that stream bulk data, such as store", v, w.Info().Name)
	}
	streaming, ok := w.(workload.Streaming)
	if !ok {
		return stack.CheckKind(s, v, stack.Unary)
	}
	for _, desc := range streaming.Streams(workload.Parameters{Settings: settings}) {
		if err := stack.CheckKind(s, v, stack.KindOf(desc)); err != nil {
			return fmt.Errorf("%s calls by %s: %w", text, stack.KindOf(desc), err)
		}
	}
	return nil
}

// declarations returns the options of all stacks and workloads, and the protocols of the variants.
func declarations(parts []scenario.Part) scenario.Declarations {
	d := scenario.Declarations{Protocols: map[string]string{}}
	for _, s := range catalog.Stacks() {
		d.Stacks = append(d.Stacks, scenario.Declare(s.Info().Name, catalog.Options(s)))
	}
	for _, w := range workloads.Workloads() {
		declared := scenario.Declare(w.Info().Name, w.Info().Options)
		declared.Sweep = w.Info().Sweep
		d.Workloads = append(d.Workloads, declared)
	}
	for _, p := range parts {
		for _, v := range p.Stacks {
			// The stack of an old run may no longer exist.
			if s, err := catalog.Find(v.Stack); err == nil {
				d.Protocols[v.String()] = stack.ProtocolFor(s, catalog.OwnOptions(v))
			}
		}
	}
	return d
}

// DeclareMissing adds declarations to a manifest of an older version, which stored no declarations.
func (l Library) DeclareMissing(m *record.Manifest) error {
	if len(m.Declarations) > 0 || len(m.Scenario) == 0 {
		return nil
	}
	var written scenario.Scenario
	if err := json.Unmarshal(m.Scenario, &written); err != nil {
		return fmt.Errorf("the manifest's scenario: %w", err)
	}
	if study, err := l.ReadStudy(m.Name); err == nil {
		written.Report = study.Report
		for _, from := range study.Parts {
			for i := range written.Parts {
				if to := &written.Parts[i]; to.Name == from.Name && haveSameChanges(to.Stacks, from.Stacks, len(from.Changes)) {
					to.Changes = from.Changes
				}
			}
		}
	}
	var err error
	if m.Scenario, err = json.Marshal(written); err != nil {
		return err
	}
	m.Declarations, err = json.Marshal(declarations(written.Parts))
	return err
}

// haveSameChanges reports whether both lists begin with the same changes+1 variants.
func haveSameChanges(a, b []scenario.Variant, changes int) bool {
	n := changes + 1
	return len(a) >= n && len(b) >= n && slices.EqualFunc(a[:n], b[:n], func(x, y scenario.Variant) bool { return x.String() == y.String() })
}
