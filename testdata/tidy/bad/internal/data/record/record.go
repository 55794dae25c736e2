// Package record has a knot: record.go uses b.go, which uses c.go, which uses record.go.
package record

type Record struct{ part b }
