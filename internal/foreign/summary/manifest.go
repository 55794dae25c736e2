package summary

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/record"
)

// ReadFile reads what another tool wrote into the file at path.
func (all Formats) ReadFile(path string, data []byte) (File, error) {
	result, err := all.Read(data)
	if err != nil {
		return File{}, err
	}
	sum := sha256.Sum256(data)
	return File{Result: result, Name: filepath.Base(path), SHA256: hex.EncodeToString(sum[:])}, nil
}

// NoScenario is the scenario in the manifest of an imported run.
const NoScenario = "{}"

// Manifest describes a run of imported records. It has neither a scenario nor a host: where and
// why the files were made is not known. The caller adds the tool and the command.
func Manifest(records []record.Record) record.Manifest {
	nothing := json.RawMessage(NoScenario)
	var tools []string
	started := time.Time{}
	m := record.Manifest{
		Version: record.Version, Status: record.Running,
		Trials: len(records), Scenario: nothing, Declarations: nothing, Host: nothing,
	}
	for _, r := range records {
		if !slices.Contains(tools, r.Foreign.Tool) {
			tools = append(tools, r.Foreign.Tool)
		}
		if !r.Started.IsZero() && (started.IsZero() || r.Started.Before(started)) {
			started = r.Started
		}
		m.Order = append(m.Order, record.PlannedTrial{Trial: r.Trial, Repeat: r.Repeat, Cell: r.Cell.Key()})
	}
	if m.Started = started; started.IsZero() {
		m.Started = time.Now()
		m.Warnings = []string{"no file says when it was made: the date is that of the import"}
	}
	m.Name = "import-" + strings.Join(tools, "-")
	m.Title = "Imported: figures of " + strings.Join(tools, ", ") + ", not of wirelab"
	return m
}
