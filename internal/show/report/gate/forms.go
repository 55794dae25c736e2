package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// A junitTest is one test for CI.
type junitTest struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"` // it could not be tested, which is not a pass
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// writeJUnit writes tests as CI reads them.
func writeJUnit(w io.Writer, name string, tests []junitTest) error {
	suite := struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitTest `xml:"testcase"`
	}{Name: name, Tests: len(tests), Cases: tests}
	for _, test := range tests {
		if test.Failure != nil {
			suite.Failures++
		}
		if test.Error != nil {
			suite.Errors++
		}
		if test.Skipped != nil {
			suite.Skipped++
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return fmt.Errorf("report: encoding JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// markdownTable returns a table for a pull request. Sides has a letter per column: l for texts, r for
// numbers.
func markdownTable(titles []string, sides string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	line(titles)
	marks := make([]string, len(titles))
	for i := range marks {
		marks[i] = map[byte]string{'l': "---", 'r': "---:"}[sides[i]]
	}
	line(marks)
	for _, row := range rows {
		escaped := make([]string, len(row))
		for i, cell := range row {
			escaped[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		line(escaped)
	}
	return out.String()
}
