package analysis

import (
	"slices"

	"wirelab.dev/internal/data/record"
)

// foreignPrograms returns the programs that measured the records that wirelab only read.
func foreignPrograms(records []*record.Record) []string {
	var programs []string
	for _, r := range records {
		if r.Foreign != nil && !slices.Contains(programs, r.Foreign.Program()) {
			programs = append(programs, r.Foreign.Program())
		}
	}
	return programs
}
