package fleet

import (
	"wirelab.dev/internal/load"
	"wirelab.dev/internal/worker"
)

type merging struct{}

func newMerging() *merging { return &merging{} }

func (m *merging) add(i worker.Interval) {}

func (m *merging) live() *load.Live { return nil }
