package publish

import (
	"fmt"
	"io"
	"path/filepath"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/gate"
)

// Replicated returns what came out for a study whose run was read.
func Replicated(seen *report.Run, status record.Status) gate.Replicated {
	s := seen.Summary
	study := gate.Replicated{Title: s.Title, Trials: s.Done, Valid: s.Done - s.Invalid - s.Failed, Claims: s.Claims}
	if status == record.Interrupted {
		study.Note = fmt.Sprintf("interrupted after %d of %d trials", s.Done, s.Planned)
	}
	return study
}

// Unmeasured returns a study that was not measured, with all its claims.
func Unmeasured(s *scenario.Scenario, why string) gate.Replicated {
	study := gate.Replicated{Title: s.Title, Note: why}
	for _, c := range s.Claims {
		study.Claims = append(study.Claims, compare.Claim{Row: c.Row, Says: c.Says, But: c.But, Part: c.Part, Find: c.Find, Outcome: compare.Unmeasured, Reason: why})
	}
	return study
}

// WriteReplication writes the files of a replication beside its runs.
func WriteReplication(directory string, all *gate.Replication) error {
	for name, write := range map[string]func(io.Writer, *gate.Replication) error{
		"claims.html": gate.WriteReplicationHTML,
		"claims.json": report.WriteReplicationJSON,
		"claims.md":   gate.WriteReplicationMarkdown,
		"claims.xml":  gate.WriteReplicationJUnit,
	} {
		if err := WriteFile(filepath.Join(directory, name), func(w io.Writer) error { return write(w, all) }); err != nil {
			return err
		}
	}
	return nil
}
