package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/report"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/catalog"
	"wirelab.dev/internal/workload"
	workloads "wirelab.dev/internal/workload/catalog"
	"wirelab.dev/studies"
)

// vocabulary is what a scenario may name.
func vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant:    catalog.Check,
		CheckConnection: catalog.CheckConnection,
		Secure:          catalog.Secure,
		CheckWorkload: func(text string) error {
			_, _, err := workloads.Find(text)
			return err
		},
		Sized:        sized,
		CheckPayload: checkPayload,
		CheckCarries: checkCarries,
		CheckLoad:    catalog.CheckLoad,
		CheckColumn:  report.CheckStudyColumn,
	}
}

// sized is true of a workload that there is not: what is wrong with it is said
// elsewhere.
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

// checkCarries holds the kinds of call that a workload makes against those that
// a stack has.
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
		return fmt.Errorf("variant %s: %s has no messages to use again: leave messages=pooled to workloads that stream bulk, as store does", v, w.Info().Name)
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

// studyEnding is what a study's file has behind its name.
const studyEnding = ".yaml"

// readStudy reads one of the program's own.
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
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), studyEnding))
	}
	return names
}

func stackNames() []string {
	var names []string
	for _, s := range catalog.Stacks() {
		names = append(names, s.Info().Name)
	}
	return names
}

// workloadWords are the workloads, and each with each of the words that its
// options take.
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

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "devel" {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
