package record

import (
	"fmt"
	"strings"
)

// Foreign says whose figures a record has that wirelab did not measure, and of what file.
type Foreign struct {
	Tool    string `json:"tool"`              // as in ghz
	Version string `json:"version,omitempty"` // absent where its file does not say
	File    string `json:"file"`              // that was read, without its folder
	SHA256  string `json:"sha256"`            // of that file
}

// Program returns the tool with its version, if that is known.
func (f *Foreign) Program() string {
	if f.Version == "" {
		return f.Tool
	}
	return f.Tool + " " + f.Version
}

// The load models of other programs' files, besides closed and open.
const (
	// Paced is a loop that waits for each answer, and for its rate: a server that is too
	// slow is asked less often, and how long that puts calls off is not measured.
	Paced = "paced"
	// UnknownLoad is one that the file does not tell.
	UnknownLoad = "unknown"
)

// foreignKey begins with the tool, as no part of wirelab's own cells is called.
func (c Cell) foreignKey() string {
	clients := "c=?"
	if c.Clients > 0 {
		clients = fmt.Sprintf("c=%d", c.Clients)
	}
	return fmt.Sprintf("%s/%s/%s/%s", c.Part, c.Tool, strings.TrimPrefix(c.Workload, "/"), clients)
}
