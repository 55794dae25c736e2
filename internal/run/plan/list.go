package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/base/tuning"
)

// Write prints the listing for people.
func (l *Listing) Write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STACKS")
	for _, s := range l.Stacks {
		fmt.Fprintf(w, "  %s\t%s; connections: %s\n", s.Name, s.Help, s.Connection)
		printOptions(w, s.Options)
	}
	fmt.Fprintln(w, "  every stack\t")
	printOptions(w, l.Common)
	fmt.Fprint(w, "\nWORKLOADS\n")
	for _, work := range l.Workloads {
		fmt.Fprintf(w, "  %s\t%s\n", work.Name, work.Help)
		printOptions(w, work.Options)
	}
	for _, group := range []struct {
		title  string
		things []ListedName
	}{{"LINKS", l.Links}, {"STUDIES", l.Studies}, {"EXPORT FORMATS", l.Formats}} {
		fmt.Fprintf(w, "\n%s\n", group.title)
		for _, t := range group.things {
			fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.Help)
		}
	}
	return w.Flush()
}

func printOptions(w *tabwriter.Writer, options []ListedOption) {
	for _, o := range options {
		values := cmp.Or(strings.Join(o.Values, "|"), "…")
		help := o.Help
		if o.Default != "" {
			help += " (default " + o.Default + ")"
		}
		fmt.Fprintf(w, "    %s=%s\t%s\n", o.Key, values, help)
	}
}

// VariantSettings holds the settings of a variant that are not its library's defaults.
type VariantSettings struct {
	Variant  string           `json:"variant"`
	Settings []tuning.Setting `json:"settings"`
}

// WriteSettings prints one table for each variant.
func WriteSettings(to io.Writer, all []VariantSettings) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n", v.Variant)
		fmt.Fprint(w, "  END\tSETTING\tVALUE\tDEFAULT\tREASON\n")
		for _, s := range v.Settings {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", s.Side, s.Name, s.Value, s.Default, s.Why)
		}
		if err := w.Flush(); err != nil { // each variant has its own column widths
			return err
		}
	}
	return nil
}
