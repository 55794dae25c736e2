package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/base/tuning"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/levers"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// A Listing lists all names that a scenario may use, for example of stacks and studies.
type Listing struct {
	Stacks    []ListedStack    `json:"stacks"`
	Common    []ListedOption   `json:"options_of_every_stack"`
	Workloads []ListedWorkload `json:"workloads"`
	Links     []ListedName     `json:"links"`
	Levers    []ListedName     `json:"levers"`
	Studies   []ListedName     `json:"studies"`
	Formats   []ListedName     `json:"export_formats"`
}

// A ListedWorkload describes a workload and its options.
type ListedWorkload struct {
	ListedName
	Sized   bool           `json:"takes_sizes"`
	Options []ListedOption `json:"options,omitempty"`
}

// A ListedStack describes a stack and the options that only this stack has.
type ListedStack struct {
	ListedName
	Connection string         `json:"default_connection"`
	Options    []ListedOption `json:"options,omitempty"`
}

// A ListedName is a name with its description.
type ListedName struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

// A ListedOption describes an option. If it lists no values, the option takes any value.
type ListedOption struct {
	Key     string   `json:"key"`
	Values  []string `json:"values,omitempty"`
	Default string   `json:"default,omitempty"`
	Help    string   `json:"help"`
}

// ListAll lists all names that a scenario may use. The caller adds the export formats.
func (l Library) ListAll() (*Listing, error) {
	all := &Listing{Common: listOptions(catalog.Common())}
	for _, s := range catalog.Stacks() {
		info := s.Info()
		all.Stacks = append(all.Stacks, ListedStack{
			ListedName: ListedName{info.Name, info.Summary}, Connection: info.Connection.String(), Options: listOptions(catalog.Options(s)),
		})
	}
	for _, w := range workloads.Workloads() {
		info := w.Info()
		all.Workloads = append(all.Workloads, ListedWorkload{
			ListedName: ListedName{info.Name, info.Summary}, Sized: info.Sized, Options: listOptions(info.Options),
		})
	}
	for _, p := range scenario.Profiles() {
		all.Links = append(all.Links, ListedName{p.Name, p.Network.String() + ": " + p.Source})
	}
	for _, lever := range levers.Catalogue {
		all.Levers = append(all.Levers, ListedName{lever.Name(), lever.Help()})
	}
	for _, name := range StudyNames() {
		s, err := l.FindScenario(name)
		if err != nil {
			return nil, err
		}
		parts := lists.Map(s.Parts, func(p scenario.Part) string { return p.Name })
		all.Studies = append(all.Studies, ListedName{name, s.Title + " (parts: " + strings.Join(parts, ", ") + ")"})
	}
	return all, nil
}

func listOptions(options []scenario.Option) []ListedOption {
	return lists.Map(options, func(o scenario.Option) ListedOption { return ListedOption{o.Key, o.Values, o.Default, o.Help} })
}

// Write prints the listing as aligned columns.
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
	}{{"LINKS", l.Links}, {"LEVERS", l.Levers}, {"STUDIES", l.Studies}, {"EXPORT FORMATS", l.Formats}} {
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

// AllSettings holds the settings of several variants.
type AllSettings struct {
	Variants []VariantSettings `json:"variants"`
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

// StackNames returns the names of all stacks.
func StackNames() []string {
	return lists.Map(catalog.Stacks(), func(s stack.Stack) string { return s.Info().Name })
}

// WorkloadsWithOptions returns the workloads' names, and each name with each value of each option.
func WorkloadsWithOptions() []string {
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
