package claim

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/vm"
)

// Cited holds the figures of a published study, one per row:
//
//	table,stack,mode,size_bytes,concurrency,metric,value,unit,note
type Cited struct{ rows []citedRow }

type citedRow struct {
	table, stack, metric string
	others               []string // mode, size, clients and note
	value                string   // not always a number, as in 1-48
}

const maxCited = 100_000

// ReadCited reads such a table.
func ReadCited(from io.Reader) (*Cited, error) {
	table := csv.NewReader(from)
	titles, err := table.Read()
	if err != nil {
		return nil, err
	}
	place := map[string]int{}
	for i, title := range titles {
		place[title] = i
	}
	for _, title := range []string{"table", "stack", "mode", "size_bytes", "concurrency", "metric", "value", "note"} {
		if _, has := place[title]; !has {
			return nil, fmt.Errorf("no column %q in the first line, which has %s", title, strings.Join(titles, ", "))
		}
	}
	c := &Cited{}
	for {
		row, err := table.Read()
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		if len(c.rows) == maxCited {
			return nil, fmt.Errorf("more than %d rows", maxCited)
		}
		of := func(title string) string { return row[place[title]] }
		c.rows = append(c.rows, citedRow{of("table"), of("stack"), of("metric"), []string{of("mode"), of("size_bytes"), of("concurrency"), of("note")}, of("value")})
	}
}

// Evaluate evaluates an expression over the table, such as
//
//	cited("latency", "rest", "mean", 64, 10) / cited("latency", "tcp", "mean", 64, 10)
//
// Mode, size, clients and note may follow the table, the stack and the metric. Only those that
// identify the row are needed.
func (c *Cited) Evaluate(text string) (float64, error) {
	environment := map[string]any{"cited": c.figure}
	program, err := compile(text, environment)
	if err != nil {
		return 0, err
	}
	result, err := vm.Run(program, environment)
	if err != nil {
		return 0, firstLine(err)
	}
	return result.(float64), nil
}

func (c *Cited) figure(table, stack, metric string, others ...any) (float64, error) {
	var found []citedRow
	for _, row := range c.rows {
		if row.table == table && row.stack == stack && row.metric == metric && row.has(others) {
			found = append(found, row)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%d published figures are %s of %s in %s %v: want one", len(found), metric, stack, table, others)
	}
	value, err := strconv.ParseFloat(found[0].value, 64)
	if err != nil {
		return 0, fmt.Errorf("the published figure %s of %s in %s is %q, which is no number", metric, stack, table, found[0].value)
	}
	return value, nil
}

func (r citedRow) has(others []any) bool {
	for _, other := range others {
		if !slices.Contains(r.others, fmt.Sprint(other)) {
			return false
		}
	}
	return true
}
