package gate

import (
	"encoding/xml"
	"fmt"
	"io"
)

// junitTest is one test for CI.
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
