package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/studies"
)

// vocabulary is what a scenario may name in this program.
func vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant: checkVariant,
		Secure:       catalog.Secure,
		CheckWorkload: func(text string) error {
			_, _, err := workloads.Find(text)
			return err
		},
		Sized:        sized,
		CheckPayload: checkPayload,
		Published:    published,
		CheckColumn:  report.CheckStudyColumn,
	}
}

// published reads the figures of a study that wirelab carries, or of a CSV file.
func published(name string) (*claim.Cited, error) {
	text, err := studies.FS.ReadFile("published/" + name + ".csv")
	if err != nil {
		if text, err = readFile(name, maxScenarioBytes); err != nil {
			return nil, fmt.Errorf("%q is no study and no CSV file: %w", name, err)
		}
	}
	table, err := claim.ReadCited(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

func checkVariant(v scenario.Variant, p scenario.Part) error {
	if err := catalog.Check(v); err != nil {
		return err
	}
	if err := catalog.CheckConnection(v, p.Connection); err != nil {
		return err
	}
	if err := catalog.CheckNetwork(v, p.Network); err != nil {
		return err
	}
	if err := checkCarries(v, p.Workload); err != nil {
		return err
	}
	return catalog.CheckLoad(v, p)
}

// sized is true for unknown workloads: CheckWorkload reports them.
func sized(text string) bool {
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

// checkCarries checks that a variant has the kinds of call that a workload makes.
func checkCarries(v scenario.Variant, text string) error {
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

// studyEnding is the ending of a study's file name.
const studyEnding = ".yaml"

// readStudy reads a study of the program's own by its name.
func readStudy(name string) (*scenario.Scenario, error) {
	data, err := studies.FS.ReadFile(name + studyEnding)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, data, vocabulary())
}

func studyNames() []string {
	files, err := studies.FS.ReadDir(".")
	if err != nil {
		panic(err) // they are in the program
	}
	files = slices.DeleteFunc(files, fs.DirEntry.IsDir) // what was published
	return each(files, func(f fs.DirEntry) string { return strings.TrimSuffix(f.Name(), studyEnding) })
}

func stackNames() []string {
	return each(catalog.Stacks(), func(s stack.Stack) string { return s.Info().Name })
}

// each calls of with each item, and returns the results.
func each[T, R any](items []T, of func(T) R) []R {
	results := make([]R, len(items))
	for i, item := range items {
		results[i] = of(item)
	}
	return results
}

// workloadWords are the workloads, alone and with each value of their options.
func workloadWords() []string {
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

// complete offers the words to the shell's completion of a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there: our own mistake
	}
}

// version is what the build knows of itself: the module's version, made from the
// commit if it was built in a repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")
}

// declarations are what the stacks and workloads of this program say of
// themselves, with the protocols of the scenario's variants.
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
			if s, err := catalog.Find(v.Stack); err == nil { // an old run's may be gone
				d.Protocols[v.String()] = stack.ProtocolFor(s, catalog.OwnOptions(v))
			}
		}
	}
	return d
}

// declareMissing adds this program's declarations, and those of its study, to the
// manifest of a run from before manifests kept them.
func declareMissing(m *record.Manifest) error {
	if len(m.Declarations) > 0 || len(m.Scenario) == 0 {
		return nil
	}
	var written scenario.Scenario
	if err := json.Unmarshal(m.Scenario, &written); err != nil {
		return fmt.Errorf("the manifest's scenario: %w", err)
	}
	if study, err := readStudy(m.Name); err == nil {
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

// changeAlike reports whether so many changes lead through the same variants in both lists.
func changeAlike(a, b []scenario.Variant, changes int) bool {
	n := changes + 1 // a list may have more behind them
	return len(a) >= n && len(b) >= n && slices.Equal(each(a[:n], scenario.Variant.String), each(b[:n], scenario.Variant.String))
}
