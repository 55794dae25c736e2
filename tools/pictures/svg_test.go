package main

import (
	"encoding/xml"
	"strings"
	"testing"
)

func TestScreenKeepsStylesAndTexts(t *testing.T) {
	text := "Script started\nlook 1\x1b[K\r\n\x1b[J\x1b[1mstack  mean\x1b[0m\r\n\x1b[31mtcp \x1b[1m75µs\x1b[0m*\r\n\r\nP99 < 5 ms\r\n\nScript done on\n"
	lines := screen(body(text))
	want := [][]run{{{"stack  mean", "bold"}}, {{"tcp ", "red"}, {"75µs", "bold"}, {"*", ""}}, nil, {{"P99 < 5 ms", ""}}}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
	}
	for i, runs := range lines {
		if len(runs) != len(want[i]) {
			t.Fatalf("line %d: %q, want %q", i, runs, want[i])
		}
		for j, r := range runs {
			if r != want[i][j] {
				t.Errorf("line %d: %q, want %q", i, r, want[i][j])
			}
		}
	}
}

func TestSVGIsXMLWithEveryWord(t *testing.T) {
	picture := svg(screen("\x1b[1ma <b> & \"c\"\x1b[0m\r\n75µs"), 20)
	var texts []string
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if token == nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		if start, is := token.(xml.StartElement); is && start.Name.Local == "text" {
			inner, err := decoder.Token()
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(inner.(xml.CharData)))
		}
	}
	if got := strings.Join(texts, "|"); got != `a <b> & "c"|75µs` {
		t.Errorf("the picture says %q", got)
	}
}

func TestDrawRefusesOtherCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"load", "http://localhost"}} {
		if err := draw("wirelab", t.TempDir(), 80, args); err == nil || !strings.Contains(err.Error(), "compare -c 1,50") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
