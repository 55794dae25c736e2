// Package peer builds workers in other languages from sources that this program contains, and the
// peer rivals, which has the stacks of other Go libraries, from wirelab's own source.
//
// A peer follows the same process contract (docs/worker-contract.md) as wirelab's own workers. A
// comparison with a peer shows whether a result comes from the wire or from one implementation.
package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wirelab.dev/peers"
)

// A Peer is a worker in another language, or with other libraries.
type Peer struct {
	Name      string `json:"name"`
	Language  string `json:"language"`
	Libraries string `json:"libraries"` // the libraries that the peer uses
	Wires     []Wire `json:"wires"`
	// Controls names the controls of the worker contract that the peer's client obeys.
	Controls []string `json:"controls,omitempty"`
	// OwnEngine says that the peer runs wirelab's own load engine and probes, and is the only program
	// with its stacks. It then has every option, workload and connection mode that wirelab has.
	OwnEngine bool `json:"own_engine,omitempty"`
	// tools lists the programs that the build needs, each with its package.
	tools []tool
	// module is a folder of wirelab's own source. If it is set, the peer is built there, and needs a
	// clone of wirelab. The peer's sources are not in this program.
	module string
	// steps lists the build commands, which run in a copy of the sources, or in the module.
	steps [][]string
	built string // path of the built program in the copy of the sources
	keeps string // folder that the program needs at run time; empty means none
}

// A Wire is a stack that a peer supports.
type Wire struct {
	Stack       string   `json:"stack"`
	Ends        End      `json:"ends"`
	Workloads   []string `json:"workloads"` // names of workloads, without options
	Options     []Option `json:"options,omitempty"`
	Connections []string `json:"connections,omitempty"` // connection modes of the peer's client, without numbers
}

// An End is one end of a wire (server or client), or both.
type End int

// The ends.
const (
	Server End = 1 << iota
	Client
	Both = Server | Client
)

// Includes reports whether e includes all of the given ends.
func (e End) Includes(ends End) bool { return e&ends == ends }

// Names returns the names of the ends.
func (e End) Names() []string {
	var names []string
	if e.Includes(Server) {
		names = append(names, "server")
	}
	if e.Includes(Client) {
		names = append(names, "client")
	}
	return names
}

// MarshalJSON writes the ends as a list of names.
func (e End) MarshalJSON() ([]byte, error) { return json.Marshal(e.Names()) }

// An Option is an option that only peers have. Values lists its values. If Values is empty, every
// whole number from 1 is valid.
type Option struct {
	Key     string   `json:"key"`
	End     End      `json:"end"`
	Values  []string `json:"values,omitempty"`
	Default string   `json:"default"`
	Alone   bool     `json:"-"` // do not combine this option with others: measure each value alone
	Help    string   `json:"help"`
	// Workloads lists the workloads of a value that supports fewer workloads than the wire.
	Workloads map[string][]string `json:"workloads,omitempty"`
}

// WorkloadsWith returns the workloads that the wire supports with a variant's options. get returns
// the value of an option, if the variant has it.
func (w Wire) WorkloadsWith(get func(key string) (string, bool)) []string {
	for _, o := range w.Options {
		value, _ := get(o.Key)
		if fewer, found := o.Workloads[value]; found {
			return fewer
		}
	}
	return w.Workloads
}

// WireFor returns the peer's wire for a stack, if the peer supports the ends.
func (p Peer) WireFor(stack string, ends End) (Wire, bool) {
	i := slices.IndexFunc(p.Wires, func(w Wire) bool { return w.Stack == stack && w.Ends.Includes(ends) })
	if i < 0 {
		return Wire{}, false
	}
	return p.Wires[i], true
}

type tool struct{ program, from string }

// All returns every peer.
func All() []Peer { return []Peer{rust, cpp, c, java, python, rivals} }

// Names returns the names of all peers.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns the peer with the name.
func Find(name string) (Peer, bool) {
	all := All()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// Path returns the path of the built program. The path changes if the sources change.
func (p Peer) Path() (string, error) {
	folder, err := p.cacheFolder()
	within := filepath.Base(p.built)
	if p.keeps != "" {
		within = strings.TrimPrefix(p.built, p.keeps+"/")
	}
	return filepath.Join(folder, within), err
}

// cacheFolder returns the folder in the user's cache for the program built from these sources.
func (p Peer) cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder for the peer %s: %w", p.Name, err)
	}
	sum, err := p.sourceHash()
	return filepath.Join(cache, "wirelab", "peer-"+p.Name+"-"+sum), err
}

func (p Peer) sourceHash() (string, error) {
	hash := sha256.New()
	const digits = 12
	if p.module != "" {
		root, err := findCheckout()
		if err == nil {
			err = hashCheckout(root, p.module, hash)
		}
		return hex.EncodeToString(hash.Sum(nil))[:digits], err
	}
	err := p.eachSource(func(path string, content []byte) error {
		_, err := fmt.Fprintf(hash, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:digits], err
}

// eachSource visits the peer's own source files and the shared ones, in a fixed order.
func (p Peer) eachSource(visit func(path string, content []byte) error) error {
	for _, folder := range []string{p.Name, peers.Shared} {
		err := fs.WalkDir(peers.Sources, folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(peers.Sources, path)
			if err != nil {
				return err
			}
			return visit(strings.TrimPrefix(path, p.Name+"/"), content)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A PeerState is a peer and its state on this machine.
type PeerState struct {
	Peer
	Program string `json:"program,omitempty"` // the path of the built program
	Missing string `json:"missing,omitempty"` // error text about what the build needs and this machine lacks
}

// List returns all peers and their states.
func List() ([]PeerState, error) {
	var all []PeerState
	for _, p := range All() {
		l := PeerState{Peer: p, Missing: p.Missing()}
		path, err := p.Path()
		if err != nil && l.Missing == "" {
			return nil, err
		}
		if _, absent := os.Stat(path); err == nil && absent == nil {
			l.Program, l.Missing = path, ""
		}
		all = append(all, l)
	}
	return all, nil
}
