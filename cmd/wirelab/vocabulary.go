package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/scenario"
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
		CheckWorkload: func(name string) error {
			_, err := workloads.Find(name)
			return err
		},
		CheckPayload: func(name string, payload scenario.Size) error {
			w, err := workloads.Find(name)
			if err != nil {
				return err
			}
			return w.Check(workload.Parameters{RequestBytes: int(payload), ResponseBytes: int(payload)})
		},
	}
}

// studyEnding is what a study's file has behind its name.
const studyEnding = ".yaml"

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
		names = append(names, s.Name())
	}
	return names
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads.Workloads() {
		names = append(names, w.Name())
	}
	return names
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
