package main

import (
	"fmt"
	"text/tabwriter"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/catalog"
	"wirelab.dev/internal/tuning"
	"wirelab.dev/internal/worker"
)

// settingsListing is what `list --settings --json` prints.
type settingsListing struct {
	Variants []variantSettings `json:"variants"`
}

type variantSettings struct {
	Variant  string           `json:"variant"`
	Settings []tuning.Setting `json:"settings"`
}

// listSettings lists those of the variants; of every stack where none is named.
func (a *app) listSettings(variants []string, asJSON bool) error {
	if len(variants) == 0 {
		for _, s := range catalog.Stacks() {
			variants = append(variants, s.Info().Name)
		}
	}
	var l settingsListing
	for _, text := range variants {
		v, err := scenario.ParseVariant(text)
		if err != nil {
			return usage(err)
		}
		if err := catalog.Check(v); err != nil {
			return usage(err)
		}
		settings, err := worker.Settings(v.String())
		if err != nil {
			return err
		}
		l.Variants = append(l.Variants, variantSettings{v.String(), settings})
	}
	if asJSON {
		return a.printJSON(l)
	}
	return a.printSettings(l)
}

func (a *app) printSettings(l settingsListing) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for i, v := range l.Variants {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n", v.Variant)
		fmt.Fprint(w, "  END\tSETTING\tVALUE\tDEFAULT\tREASON\n")
		for _, s := range v.Settings {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", s.Side, s.Name, s.Value, s.Default, s.Why)
		}
		if err := w.Flush(); err != nil { // each variant's columns are as wide as it needs
			return err
		}
	}
	return nil
}
