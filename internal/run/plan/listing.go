package plan

import (
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

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
		var parts []string
		for _, p := range s.Parts {
			parts = append(parts, p.Name)
		}
		all.Studies = append(all.Studies, Listed{name, s.Title + " (parts: " + strings.Join(parts, ", ") + ")"})
	}
	return all, nil
}

func listOptions(options []scenario.Option) []ListedOption {
	var all []ListedOption
	for _, o := range options {
		all = append(all, ListedOption{o.Key, o.Values, o.Default, o.Help})
	}
	return all
}

// StackNames returns the names of all stacks.
func StackNames() (names []string) {
	for _, s := range catalog.Stacks() {
		names = append(names, s.Info().Name)
	}
	return names
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
