package peer

import (
	"os"
	"strings"
)

// A Listed is a peer and its state on this machine.
type Listed struct {
	Name      string       `json:"name"`
	Language  string       `json:"language"`
	Libraries string       `json:"libraries"`
	Wires     []ListedWire `json:"wires"`
	Program   string       `json:"program,omitempty"` // where it is built
	Missing   string       `json:"missing,omitempty"` // what it cannot be built without
}

// A ListedWire is a stack that a peer speaks.
type ListedWire struct {
	Stack       string         `json:"stack"`
	Ends        []string       `json:"ends"`
	Workloads   []string       `json:"workloads"`
	Options     []ListedOption `json:"options,omitempty"`
	Connections []string       `json:"connections,omitempty"` // of its client
}

// A ListedOption is an option of a stack that an end of the peer has.
type ListedOption struct {
	Key     string   `json:"key"`
	End     string   `json:"end"`
	Values  []string `json:"values,omitempty"` // absent: a number
	Default string   `json:"default"`
	Help    string   `json:"help"`
}

func listWires(p Peer) []ListedWire {
	var all []ListedWire
	for _, w := range p.Wires {
		wire := ListedWire{Stack: w.Stack, Ends: w.Ends.Names(), Workloads: w.Workloads, Connections: w.Connections}
		for _, o := range w.Options {
			wire.Options = append(wire.Options, ListedOption{o.Key, strings.Join(o.End.Names(), ", "), o.Values, o.Default, o.Help})
		}
		all = append(all, wire)
	}
	return all
}

// List returns all peers.
func List() ([]Listed, error) {
	var all []Listed
	for _, p := range All() {
		path, err := p.Path()
		if err != nil {
			return nil, err
		}
		l := Listed{Name: p.Name, Language: p.Language, Libraries: p.Libraries, Wires: listWires(p)}
		if _, err := os.Stat(path); err == nil {
			l.Program = path
		} else {
			l.Missing = p.Missing()
		}
		all = append(all, l)
	}
	return all, nil
}
