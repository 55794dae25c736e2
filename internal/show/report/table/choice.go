package table

import (
	"fmt"
	"slices"
	"strings"
)

// AllColumns asks for every column.
const AllColumns = "all"

// ColumnNames lists the columns that can be asked for.
func ColumnNames() []string {
	names := []string{stackTitle}
	for _, k := range keys() {
		names = append(names, k.title)
	}
	for _, c := range figureColumns() {
		if c.of == "" {
			names = append(names, c.title)
		}
	}
	return names
}

// FindColumns finds columns by their names, in whatever case.
func FindColumns(names []string) ([]string, error) {
	var found []string
	known := append(ColumnNames(), AllColumns)
	for _, name := range names {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fmt.Errorf("no column is called %q: there are %s", name, strings.Join(known, ", "))
		}
		if !slices.Contains(found, known[i]) {
			found = append(found, known[i])
		}
	}
	return found, nil
}

// asked are the columns that tell the cells apart, those that were asked for, in that
// order, and the validity, without which no figure is shown. None is left out for want of
// room.
func asked(varying []key, figures []column, names []string) []column {
	isVarying := func(k key) bool {
		return slices.ContainsFunc(varying, func(v key) bool { return v.title == k.title })
	}
	if slices.Contains(names, AllColumns) {
		usual := slices.DeleteFunc(keys(), func(k key) bool { return k.seldom && !isVarying(k) })
		return append(keyColumns(usual), figures...)
	}
	shown := slices.DeleteFunc(keys(), func(k key) bool { return !slices.Contains(names, k.title) && !isVarying(k) })
	all := keyColumns(shown)
	if !slices.Contains(names, validTitle) {
		names = append(slices.Clone(names), validTitle)
	}
	for _, name := range names {
		for _, c := range figureColumns() {
			switch {
			case c.title == name:
				all = append(all, c)
			case c.of == name && slices.ContainsFunc(figures, func(f column) bool { return f.title == c.title && f.of == c.of }):
				all = append(all, c)
			}
		}
	}
	return all
}

// showsTimes reports whether a column may differ between the kinds of time of a cell.
func (t Table) showsTimes() bool {
	if len(t.Columns) == 0 || slices.Contains(t.Columns, AllColumns) {
		return true
	}
	return slices.ContainsFunc(latencyColumns(), func(c column) bool { return slices.Contains(t.Columns, c.title) })
}
