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

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/studies"
)

// A Library reads scenarios: the studies that wirelab carries, and files.
type Library struct {
	CheckColumn func(name string) error // checks a column of the table that a study asks for
}

// Vocabulary returns what a scenario may name in this program.
func (l Library) Vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant: checkVariant,
		Secure:       catalog.Secure,
		CheckWorkload: func(text string) error {
			_, _, err := workloads.Find(text)
			return err
		},
		Sized:        IsSized,
		CheckPayload: checkPayload,
		Published:    published,
		CheckColumn:  l.CheckColumn,
	}
}

// published reads the figures of a study that wirelab carries, or of a CSV file.
func published(name string) (*claim.Cited, error) {
	text, err := studies.FS.ReadFile("published/" + name + ".csv")
	if err != nil {
		if text, err = ReadFile(name, maxScenarioBytes); err != nil {
			return nil, fmt.Errorf("%q is no study and no CSV file: %w", name, err)
		}
	}
	table, err := claim.ReadCited(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

const studyEnding = ".yaml"

// Study reads a study of the program's own by its name.
func (l Library) Study(name string) (*scenario.Scenario, error) {
	data, err := studies.FS.ReadFile(name + studyEnding)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// StudyNames returns the studies that wirelab carries.
func StudyNames() []string {
	files, err := studies.FS.ReadDir(".")
	if err != nil {
		panic(err) // they are in the program
	}
	var names []string
	for _, f := range files {
		if !f.IsDir() { // the folder has published figures
			names = append(names, strings.TrimSuffix(f.Name(), studyEnding))
		}
	}
	return names
}

// Scenario finds a study by its name, or reads a file.
func (l Library) Scenario(name string) (*scenario.Scenario, error) {
	study, err := l.Study(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return study, err
	}
	data, err := ReadFile(name, maxScenarioBytes)
	if errors.Is(err, fs.ErrNotExist) {
		hint := ""
		if meant, found := spelling.Meant(name, StudyNames()); found {
			hint = "; did you mean " + meant + "?"
		}
		return nil, fmt.Errorf("%s is neither a study (%s) nor a file%s", name, strings.Join(StudyNames(), ", "), hint)
	}
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, l.Vocabulary())
}

// maxScenarioBytes bounds a scenario file, and a CSV file that a scenario names: somebody
// else's scenario may name a device that never ends.
const maxScenarioBytes = 8 << 20

// ReadFile reads a file, or the output of a process from a named pipe, up to a limit.
func ReadFile(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d MiB, which is more than such a file needs", name, most>>20)
	}
	return data, err
}

func checkVariant(v scenario.Variant, p scenario.Part) error {
	if err := catalog.Check(v); err != nil {
		return err // the other checks read its options
	}
	return cmp.Or(catalog.CheckConnection(v, p.Connection), catalog.CheckNetwork(v, p.Network), CheckCarries(v, p.Workload), catalog.CheckLoad(v, p))
}

// IsSized reports whether a workload takes sizes. An unknown workload does.
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

// CheckCarries checks that a variant can make the kinds of call that a workload makes.
func CheckCarries(v scenario.Variant, text string) error {
	s, err := catalog.Find(v.Stack)
	if err != nil {
		return err
	}
	w, settings, err := workloads.Find(text)
	if err != nil {
		return err
	}
	if _, pools := w.(workload.Pooling); catalog.PoolsMessages(v) && !pools {
		return fmt.Errorf("variant %s: %s has no messages to use again: set messages=pooled only with workloads that stream bulk, as store does", v, w.Info().Name)
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

// declarations returns what stacks and workloads declare, and the protocols of the variants.
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
			if s, err := catalog.Find(v.Stack); err == nil { // the stack of an old run may no longer exist
				d.Protocols[v.String()] = stack.ProtocolFor(s, catalog.OwnOptions(v))
			}
		}
	}
	return d
}

// DeclareMissing adds the declarations to the manifest of a run from before manifests kept them.
func (l Library) DeclareMissing(m *record.Manifest) error {
	if len(m.Declarations) > 0 || len(m.Scenario) == 0 {
		return nil
	}
	var written scenario.Scenario
	if err := json.Unmarshal(m.Scenario, &written); err != nil {
		return fmt.Errorf("the manifest's scenario: %w", err)
	}
	if study, err := l.Study(m.Name); err == nil {
		written.Report = study.Report
		for _, from := range study.Parts {
			for i := range written.Parts {
				if to := &written.Parts[i]; to.Name == from.Name && changeAlike(to.Stacks, from.Stacks, len(from.Changes)) {
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

// changeAlike reports whether the first changes lead through the same variants in both lists.
func changeAlike(a, b []scenario.Variant, changes int) bool {
	n := changes + 1 // a list may continue after them
	return len(a) >= n && len(b) >= n && slices.EqualFunc(a[:n], b[:n], func(x, y scenario.Variant) bool { return x.String() == y.String() })
}

// A Listing has everything that a user may choose from.
type Listing struct {
	Stacks    []ListedStack    `json:"stacks"`
	Common    []ListedOption   `json:"options_of_every_stack"`
	Workloads []ListedWorkload `json:"workloads"`
	Links     []Listed         `json:"links"`
	Studies   []Listed         `json:"studies"`
	Formats   []Listed         `json:"export_formats"`
}

// A ListedWorkload is a workload and its options.
type ListedWorkload struct {
	Listed
	Sized   bool           `json:"takes_sizes"`
	Options []ListedOption `json:"options,omitempty"`
}

// A ListedStack is a stack and its own options.
type ListedStack struct {
	Listed
	Connection string         `json:"default_connection"`
	Options    []ListedOption `json:"options,omitempty"`
}

// A Listed is a name and what it stands for.
type Listed struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

// A ListedOption is an option with its values; without values it takes any.
type ListedOption struct {
	Key     string   `json:"key"`
	Values  []string `json:"values,omitempty"`
	Default string   `json:"default,omitempty"`
	Help    string   `json:"help"`
}

// List lists everything that a scenario may name. The caller adds the export formats.
func (l Library) List() (*Listing, error) {
	all := &Listing{Common: listOptions(catalog.Common())}
	for _, s := range catalog.Stacks() {
		info := s.Info()
		all.Stacks = append(all.Stacks, ListedStack{
			Listed: Listed{info.Name, info.Summary}, Connection: info.Connection.String(), Options: listOptions(catalog.Options(s)),
		})
	}
	for _, w := range workloads.Workloads() {
		info := w.Info()
		all.Workloads = append(all.Workloads, ListedWorkload{
			Listed: Listed{info.Name, info.Summary}, Sized: info.Sized, Options: listOptions(info.Options),
		})
	}
	for _, p := range scenario.Profiles() {
		all.Links = append(all.Links, Listed{p.Name, p.Network.String() + ": " + p.Source})
	}
	for _, name := range StudyNames() {
		s, err := l.Scenario(name)
		if err != nil {
			return nil, err
		}
		parts := lists.Map(s.Parts, func(p scenario.Part) string { return p.Name })
		all.Studies = append(all.Studies, Listed{name, s.Title + " (parts: " + strings.Join(parts, ", ") + ")"})
	}
	return all, nil
}

func listOptions(options []scenario.Option) []ListedOption {
	return lists.Map(options, func(o scenario.Option) ListedOption { return ListedOption{o.Key, o.Values, o.Default, o.Help} })
}

// StackNames returns the names of all stacks.
func StackNames() []string {
	return lists.Map(catalog.Stacks(), func(s stack.Stack) string { return s.Info().Name })
}

// WorkloadWords returns the workloads, alone and with each value of their options.
func WorkloadWords() []string {
	var words []string
	for _, w := range workloads.Workloads() {
		info := w.Info()
		words = append(words, info.Name)
		for _, o := range info.Options {
			for _, value := range o.Values {
				words = append(words, info.Name+":"+o.Key+"="+value)
			}
		}
	}
	return words
}
