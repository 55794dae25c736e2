package record

// Foreign names the program that measured a record's figures in place of wirelab, and its file.
type Foreign struct {
	Tool    string `json:"tool"`              // as in ghz
	Version string `json:"version,omitempty"` // absent if its file does not say
	File    string `json:"file"`              // the name of the file, without its folder
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
	// slow gets calls less often, and the delay of these calls is not measured.
	Paced = "paced"
	// UnknownLoad is the model of a load that the file does not describe.
	UnknownLoad = "unknown"
)
