// Package peer builds workers in other languages, from sources that this program carries.
//
// A peer keeps the process contract (docs/worker-contract.md) as wirelab's own workers do. It
// answers whether a figure is the wire's or the implementation's.
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

// A Peer is a worker in another language.
type Peer struct {
	Name      string `json:"name"`
	Language  string `json:"language"`
	Libraries string `json:"libraries"` // the libraries that carry its wires
	Wires     []Wire `json:"wires"`
	// tools lists the programs that build it, each with the package that has it.
	tools []tool
	// steps lists the commands that build it in a copy of its sources, and leave the program there.
	steps [][]string
	built string // the program, as a path in that copy
	keeps string // the folder that the program needs around it; empty: none
}

// A Wire is a stack that a peer speaks.
type Wire struct {
	Stack       string   `json:"stack"`
	Ends        End      `json:"ends"`
	Workloads   []string `json:"workloads"` // without options
	Options     []Option `json:"options,omitempty"`
	Connections []string `json:"connections,omitempty"` // modes of its client, without numbers
}

// MarshalJSON lists the ends.
func (w Wire) MarshalJSON() ([]byte, error) {
	type plain Wire
	return json.Marshal(struct {
		Stack string   `json:"stack"`
		Ends  []string `json:"ends"`
		plain
	}{w.Stack, w.Ends.Names(), plain(w)})
}

// An End is a side of a wire, or both.
type End int

// The ends.
const (
	Server End = 1 << iota
	Client
	Both = Server | Client
)

// Plays reports whether all of the ends are played.
func (e End) Plays(ends End) bool { return e&ends == ends }

// Names spells the ends.
func (e End) Names() []string {
	var names []string
	if e.Plays(Server) {
		names = append(names, "server")
	}
	if e.Plays(Client) {
		names = append(names, "client")
	}
	return names
}

// MarshalText joins the names with commas.
func (e End) MarshalText() ([]byte, error) { return []byte(strings.Join(e.Names(), ", ")), nil }

// An Option is an option that only a peer has. Its values are a list, or whole numbers from 1 if the
// list is empty.
type Option struct {
	Key     string   `json:"key"`
	End     End      `json:"end"`
	Values  []string `json:"values,omitempty"`
	Default string   `json:"default"`
	Alone   bool     `json:"-"` // each value can be combined with any other option
	Help    string   `json:"help"`
}

// Speaks returns the peer's wire of that stack, if it plays the ends.
func (p Peer) Speaks(stack string, ends End) (Wire, bool) {
	i := slices.IndexFunc(p.Wires, func(w Wire) bool { return w.Stack == stack && w.Ends.Plays(ends) })
	if i < 0 {
		return Wire{}, false
	}
	return p.Wires[i], true
}

type tool struct{ program, from string }

// All returns every peer.
func All() []Peer { return []Peer{rust, cpp, c, java, python} }

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

// Path returns the place of the built program. Changed sources have another place.
func (p Peer) Path() (string, error) {
	folder, err := p.folder()
	within := filepath.Base(p.built)
	if p.keeps != "" {
		within = strings.TrimPrefix(p.built, p.keeps+"/")
	}
	return filepath.Join(folder, within), err
}

// folder returns the place of these sources' program in the user's cache.
func (p Peer) folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder for the peer %s: %w", p.Name, err)
	}
	sum, err := p.sum()
	return filepath.Join(cache, "wirelab", "peer-"+p.Name+"-"+sum), err
}

// sum returns a hash of the sources.
func (p Peer) sum() (string, error) {
	hash := sha256.New()
	err := p.each(func(path string, content []byte) error {
		_, err := fmt.Fprintf(hash, "%s %d\n%s", path, len(content), content)
		return err
	})
	const digits = 12
	return hex.EncodeToString(hash.Sum(nil))[:digits], err
}

// each visits the sources in a fixed order: the peer's own, and the shared ones.
func (p Peer) each(visit func(path string, content []byte) error) error {
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

// A Listed is a peer and its state on this machine.
type Listed struct {
	Peer
	Program string `json:"program,omitempty"` // the path of the built program
	Missing string `json:"missing,omitempty"` // a tool that its build needs and this machine lacks
}

// List returns all peers.
func List() ([]Listed, error) {
	var all []Listed
	for _, p := range All() {
		path, err := p.Path()
		if err != nil {
			return nil, err
		}
		l := Listed{Peer: p}
		if _, err := os.Stat(path); err == nil {
			l.Program = path
		} else {
			l.Missing = p.Missing()
		}
		all = append(all, l)
	}
	return all, nil
}
