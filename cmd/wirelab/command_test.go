package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag of a type that badValue has no words for would show those of pflag.
func TestEveryFlagSaysWhatItWants(t *testing.T) {
	own := map[string]bool{"goal": true, "repeats": true, "share": true, "func": true}
	anything := map[string]bool{"string": true, "stringSlice": true, "stringArray": true}
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if _, has := flagTypes[kind]; !has && !own[kind] && !anything[kind] {
				t.Errorf("%s --%s is a %s: what does it want? Say it in wanted", cmd.CommandPath(), f.Name, kind)
			}
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check((&app{}).root())
}
