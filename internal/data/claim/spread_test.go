package claim

import (
	"math"
	"testing"
)

// What was put into a table comes out of it: rows a factor of 3 apart, columns of 1.5, and one
// cell that is special.
func TestSpread(t *testing.T) {
	const variants = `[["tcp", "tcp-b"], ["grpc", "grpc-b"]]`
	of := func(values ...float64) table {
		all := table{}
		for i, name := range []string{"tcp", "tcp-b", "grpc", "grpc-b"} {
			all[Need{"mean", Cell{"p", name, 64, 1}}] = values[i]
		}
		return all
	}
	row, column := square(math.Log(3)), square(math.Log(1.5))
	for _, test := range []struct {
		what  string
		cells table
		want  Spread
	}{
		{"only the row matters", of(10, 10, 30, 30), Spread{Rows: 1}},
		{"only the column", of(10, 15, 10, 15), Spread{Columns: 1}},
		{"both", of(10, 15, 30, 45), Spread{Rows: row / (row + column), Columns: column / (row + column)}},
		{"each cell is special", of(10, 20, 20, 10), Spread{Neither: 1}},
	} {
		got := Spread{}
		for name, share := range map[string]*float64{"rows": &got.Rows, "columns": &got.Columns, "neither": &got.Neither} {
			e, err := Parse(`1 + spread("mean", 64, 1, ` + variants + `).` + name) // no claim is 0
			if err != nil {
				t.Fatal(err)
			}
			*share = e.Evaluate("p", test.cells).Number - 1
		}
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(got.Rows, test.want.Rows) || !near(got.Columns, test.want.Columns) || !near(got.Neither, test.want.Neither) {
			t.Errorf("%s: %+v, want %+v", test.what, got, test.want)
		}
	}
}

func TestSpreadNeedsATable(t *testing.T) {
	for _, text := range []string{
		`spread("mean", 64, 1, [["tcp", "tcp-b"]]).rows`, `spread("mean", 64, 1, [["tcp"], ["grpc"]]).rows`,
		`spread("mean", 64, 1, [["tcp", "tcp-b"], ["grpc"]]).rows`, `spread("mean", 64, 1, [1, 2]).rows`,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if value := e.Evaluate("p", table{}); !math.IsNaN(value.Number) || value.Reason == "" {
			t.Errorf("%s comes to %v, because %q", text, value.Number, value.Reason)
		}
	}
	e, err := Parse(`spread("mean", 64, 1, [["tcp", "tcp-b"], ["grpc", "grpc-b"]]).rows`)
	if err != nil {
		t.Fatal(err)
	}
	if needs, err := e.Needs("p", table{}); err != nil || len(needs) != 4 {
		t.Errorf("needs %v, %v; want its four cells", needs, err)
	}
}
