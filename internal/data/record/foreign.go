package record

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
