package scenario

import (
	"errors"
	"strings"
	"testing"
)

func TestOperationsAreNamed(t *testing.T) {
	declared := Declarations{Workloads: []Declaration{Declare("users", []Option{
		{Key: "op", Default: "get-user", Role: OperationRole}, {Key: "work", Default: "10ms"}, {Key: "mix", Role: OperationRole},
	})}}
	for workload, want := range map[string]string{
		"users":                               "get-user",
		"users:op=create-large,work=0s":       "create-large",
		"users:mix=get-user*8+create-small*2": "get-user*8+create-small*2",
		"echo":                                "echo",
		"not:a=valid=":                        "not",
	} {
		if got := declared.Operation(workload); got != want {
			t.Errorf("%s: %s, want %s", workload, got, want)
		}
	}
}

const reported = `version: 1
name: s
report: {cases: true, table: {file: t, columns: [stack]}}
defaults: {sizes: [64], clients: [1]}
parts:
  - name: a
    stacks: [tcp, grpc, rest]
    changes: [the library, the wire]
`

func TestReport(t *testing.T) {
	strict := words
	strict.CheckColumn = func(name string) error {
		if name != "stack" {
			return errors.New("no such column")
		}
		return nil
	}
	s, err := Parse("s.yaml", []byte(reported), strict)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Report.Cases || s.Report.Table.File != "t" || len(s.Report.Table.Columns) != 1 || len(s.Parts[0].Changes) != 2 {
		t.Errorf("%+v, %+v", s.Report, s.Parts[0].Changes)
	}
	for _, test := range []struct{ from, to, says string }{
		{"file: t, ", "", "needs a file name"},
		{"file: t", "file: a/b", "needs a file name"},
		{"[stack]", "[stacks]", "no such column"},
		{", rest]", "]", "2 changes, which need 3 stacks; found 2"},
	} {
		text := strings.Replace(reported, test.from, test.to, 1)
		if _, err := Parse("s.yaml", []byte(text), strict); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error that says %q", test.to, err, test.says)
		}
	}
}
