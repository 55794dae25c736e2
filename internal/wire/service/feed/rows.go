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

const maxRowsBytes = 64 << 20

// ReadRows reads data: CSV with column names in the first line, or JSON objects, in an array or one
// after another. The file extension selects the format. Without one, the first character selects
// it.
func ReadRows(name string, from io.Reader) (service.Rows, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxRowsBytes+1))
	if err != nil {
		return service.Rows{}, fmt.Errorf("read the data: %w", err)
	}
	if len(data) > maxRowsBytes {
		return service.Rows{}, fmt.Errorf("%s has more than %d MiB: use fewer rows or columns, because every client process keeps the data", name, maxRowsBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which some programs write before CSV
	var rows service.Rows
	if isJSON(name, data) {
		rows, err = jsonRows(data)
	} else {
		rows, err = csvRows(data)
	}
	if err == nil && len(rows.Values) == 0 {
		err = errors.New("the file has no rows: add at least one")
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
	reader := csv.NewReader(bytes.NewReader(data)) // requires the same number of fields in each line
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
			return rows, fmt.Errorf("line 1: column %d has no name: give it one", i+1)
		case slices.Contains(rows.Columns[:i], column):
			return rows, fmt.Errorf("line 1: two columns are named %q: give each its own name", column)
		}
	}
	return rows, nil
}

// jsonRows reads JSON objects. The first object's names become the columns.
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
			return rows, fmt.Errorf("line %d: want ] after the last row: %w", line(), err)
		}
	}
	if rest := bytes.TrimSpace(data[decoder.InputOffset():]); len(rest) > 0 {
		return rows, fmt.Errorf("line %d: found other text after the rows: %s", line(), excerpt.Start(string(rest), 60))
	}
	return rows, nil
}

// jsonValues returns a row's values in the order of the columns: texts without quotes, other
// values as JSON.
func jsonValues(columns []string, row map[string]json.RawMessage) ([]string, error) {
	values := make([]string, len(columns))
	for i, column := range columns {
		value, found := row[column]
		if !found {
			return nil, fmt.Errorf("found no %q: want the names of the first row", column)
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
			return nil, fmt.Errorf("found %q: want only the names of the first row", name)
		}
	}
	return values, nil
}
