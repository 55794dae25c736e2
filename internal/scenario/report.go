package scenario

// Report is what a scenario asks of its report beyond what every report tells.
type Report struct {
	// Whether each part is a case of its own, and none the main one: the advice
	// then counts the cases in which each stack is faster than the first. If
	// left out, no.
	Cases bool `json:"cases,omitempty"`
	// A CSV file with a row a cell, beside the report.
	Table Table `json:"table,omitzero"`
}

// Table is a CSV file with a row a cell.
type Table struct {
	// The name of the file: the minute in which the run began, and .csv, are
	// added to it.
	File string `json:"file" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The columns; an unknown one is an error that lists all. If left out, all.
	Columns []string `json:"columns,omitempty"`
}

// report says what is wrong with what a scenario asks of its report.
func (c *checker) report(r Report) *problem {
	in := func(steps ...any) at { return append(at{"report", "table"}, steps...) }
	switch {
	case r.Table.File == "" && len(r.Table.Columns) == 0:
		return nil
	case !isWord(r.Table.File):
		return c.problem(in("file"), "the table needs a file name of lower-case letters, digits and dashes, found %q", r.Table.File)
	}
	for i, column := range r.Table.Columns {
		if err := c.words.CheckColumn(column); err != nil {
			return c.problem(in("columns", i), "%v", err)
		}
	}
	return nil
}
