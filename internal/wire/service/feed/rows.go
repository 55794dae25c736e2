package feed

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/wire/service"
)

// maxRowsBytes bounds a file of rows.
const maxRowsBytes = 64 << 20

// ReadRows reads data: CSV with the columns' names in its first line, or JSON objects in a row or
// an array. The file name's extension decides, or else the first letter.
func ReadRows(name string, from io.Reader) (service.Rows, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxRowsBytes+1))
	if err != nil {
		return service.Rows{}, fmt.Errorf("read the data: %w", err)
	}
	if len(data) > maxRowsBytes {
		return service.Rows{}, fmt.Errorf("%s has more than %d MiB: every client's process keeps it, so take fewer rows or columns", name, maxRowsBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which some programs write before CSV
	var rows service.Rows
	if isJSON(name, data) {
		rows, err = jsonRows(data)
	} else {
		rows, err = csvRows(data)
	}
	if err == nil && len(rows.Values) == 0 {
		err = errors.New("there are no rows")
	}
	if err != nil {
		return service.Rows{}, fmt.Errorf("%s: %w", name, err)
	}
	return rows, nil
}

func isJSON(name string, data []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonl", ".ndjson":
		return true
	case ".csv":
		return false
	}
	first := bytes.TrimSpace(data)
	return len(first) > 0 && (first[0] == '{' || first[0] == '[')
}

func csvRows(data []byte) (service.Rows, error) {
	reader := csv.NewReader(bytes.NewReader(data)) // wants as many fields in each line as in the first
	lines, err := reader.ReadAll()
	if errors.Is(err, csv.ErrFieldCount) {
		var at *csv.ParseError
		errors.As(err, &at)
		return service.Rows{}, fmt.Errorf("line %d has more or fewer fields than the first line, which names the columns", at.Line)
	}
	if err != nil || len(lines) == 0 {
		return service.Rows{}, err
	}
	rows := service.Rows{Columns: lines[0], Values: lines[1:]}
	for i, column := range rows.Columns {
		switch {
		case column == "":
			return rows, fmt.Errorf("line 1: column %d has no name", i+1)
		case slices.Contains(rows.Columns[:i], column):
			return rows, fmt.Errorf("line 1: there are two columns %q", column)
		}
	}
	return rows, nil
}

// jsonRows reads objects. The first one names the columns.
func jsonRows(data []byte) (service.Rows, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	line := func() int { return bytes.Count(data[:decoder.InputOffset()], []byte("\n")) + 1 }
	inArray := bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
	if inArray {
		if _, err := decoder.Token(); err != nil {
			return service.Rows{}, fmt.Errorf("line %d: %w", line(), err)
		}
	}
	var rows service.Rows
	for decoder.More() {
		var row map[string]json.RawMessage
		if err := decoder.Decode(&row); err != nil || row == nil {
			if err == nil {
				err = errors.New("found null")
			}
			return rows, fmt.Errorf("line %d: want an object, as in {\"name\": \"value\"}: %w", line(), err)
		}
		if rows.Columns == nil {
			rows.Columns = []string{}
			for name := range row {
				rows.Columns = append(rows.Columns, name)
			}
			slices.Sort(rows.Columns)
		}
		values, err := jsonValues(rows.Columns, row)
		if err != nil {
			return rows, fmt.Errorf("line %d, row %d: %w", line(), len(rows.Values)+1, err)
		}
		rows.Values = append(rows.Values, values)
	}
	if inArray {
		if _, err := decoder.Token(); err != nil {
			return rows, fmt.Errorf("line %d: the array has no end: %w", line(), err)
		}
	}
	if rest := bytes.TrimSpace(data[decoder.InputOffset():]); len(rest) > 0 {
		return rows, fmt.Errorf("line %d: found more after the rows: %s", line(), excerpt.Start(string(rest), 60))
	}
	return rows, nil
}

// jsonValues returns a row's values in the columns' order: texts as they are, others as JSON.
func jsonValues(columns []string, row map[string]json.RawMessage) ([]string, error) {
	values := make([]string, len(columns))
	for i, column := range columns {
		value, found := row[column]
		if !found {
			return nil, fmt.Errorf("it has no %q, which the first row has", column)
		}
		if json.Unmarshal(value, &values[i]) == nil && value[0] == '"' {
			continue
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, err
		}
		values[i] = compact.String()
	}
	if len(row) == len(columns) {
		return values, nil
	}
	for name := range row {
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("it has %q, which the first row does not have", name)
		}
	}
	return values, nil
}
