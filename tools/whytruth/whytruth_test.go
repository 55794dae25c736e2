package main

import (
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The names of the cells may have a right word, so they count for nothing.
func TestJudge(t *testing.T) {
	const differ = "A call over grpc:gogc=10 takes 5 ms longer than over grpc at 64 KiB with 16 clients (+47 %): "
	heap := plantedCause{Says: []string{"collector", "GC", "gogc"}}
	lock := plantedCause{Says: []string{"lock"}}
	codec := plantedCause{B: map[string]any{"stack": "h1:codec=json"}, Says: []string{"JSON"}}
	equal := plantedCause{Says: []string{"not prove"}, Equal: true}
	for _, test := range []struct {
		name, sentence string
		planted        plantedCause
		namesCause     bool
		want           string
	}{
		{"the cause", differ + "4 ms of it is the garbage collectors of both ends.", heap, true, right},
		{"in other letters", differ + "4 ms of it is gcBgMarkWorker.", heap, true, right},
		{"a setting as the reason", differ + "4 ms of it is work, because gogc=10 is set.", heap, true, right},
		{"another cause", differ + "4 ms of it is encryption.", heap, true, wrong},
		{"the setting in a list alone", differ + "4 ms of it is waiting. The cells differ in gogc.", heap, true, wrong},
		{"a cause beside what is not explained", differ + "1 ms of it is encryption. The rest is not explained.", heap, true, wrong},
		{"within another word", differ + "4 ms of it is the clock.", lock, true, wrong},
		{"at the beginning of a word", differ + "4 ms of it is waiting for locks.", lock, true, right},
		{"no cause", differ + "the probes show nothing.", heap, false, unknown},
		{"an admission", differ + "the cause is not known: most of it is waiting.", heap, true, unknown},
		{"not proven", "The measured trials do not prove that calls over grpc:gogc=10 and over grpc differ (−6.8 % to +19 %).", heap, false, unknown},
		{"not proven, and the cause", "The measured trials do not prove that calls over grpc:gogc=10 and over grpc differ (−6.8 % to +19 %). The probes point to 6 µs more in the collector.", heap, true, right},
		{"too few trials, and the name alone", "Too few trials are valid. The probes point to 6 µs more for h1:codec=json, in encryption.", codec, true, unknown},
		{"too few trials, and the cause", "Too few trials are valid. The probes point to 6 µs more for h1:codec=json, in writing JSON.", codec, true, right},
		{"no difference", "The measured trials do not prove that calls over tcp and over tcp:buffers=fresh differ (−1 % to +2 %).", equal, false, right},
		{"a cause of no difference", differ + "4 ms of it is encryption.", equal, true, wrong},
	} {
		if got := test.planted.judge(test.sentence, test.namesCause); got != test.want {
			t.Errorf("%s: %q is %s, want %s", test.name, test.sentence, got, test.want)
		}
	}
}

func read(t *testing.T, list string) ([]plantedCause, error) {
	file := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return (&truth{file: file}).read()
}

func TestListsAreRefused(t *testing.T) {
	const good = "- {name: one, b: {stack: tcp}, says: [lock]}\n"
	if _, err := read(t, good); err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"- {name: one, b: {stack: tcp}, say: [lock]}":                      "field say not found",
		"- {name: one, service: {program: go, jobs: plain}, says: [lock]}": "field jobs not found",
		good + good:                      `the name "one"`,
		"- {name: one, b: {stack: tcp}}": "either right",
		"- {name: one, b: {stack: tcp}, right: [lock], says: [lock]}":        "either right",
		"- {name: one, says: [lock]}":                                        "either the cell b",
		"- {name: one, service: {program: cobol, job: plain}, says: [lock]}": `a service in "cobol", want one of cpp, go`,
	} {
		if _, err := read(t, list); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "list.yaml") {
			t.Errorf("%s: %v, want the file's name and %q", list, err, want)
		}
	}
}

// A lot has each cause once, is the same for the same seed, and is another for another seed.
func TestLot(t *testing.T) {
	var all []plantedCause
	for name := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		all = append(all, plantedCause{Name: name})
	}
	draw := func(seed uint64, number int) (names string) {
		lot := &truth{draw: number, seed: seed}
		for _, planted := range lot.lot(all) {
			if strings.Contains(names, planted.Name) {
				t.Errorf("%s is drawn twice", planted.Name)
			}
			names += planted.Name
		}
		return names
	}
	if first := draw(1, 10); len(first) != 10 || first != draw(1, 10) || first == draw(2, 10) {
		t.Errorf("seed 1 draws %q and %q, seed 2 %q", first, draw(1, 10), draw(2, 10))
	}
	if got := len(draw(1, math.MaxInt)); got != len(all) {
		t.Errorf("%d causes are drawn of %d", got, len(all))
	}
}

// A program that is not installed keeps its causes out of the lot.
func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	planted := plantedCause{Service: &service{Program: "java"}}
	if got, want := planted.missing(), "java is not installed"; got != want {
		t.Errorf("missing: %q, want %q", got, want)
	}
	if got := (&plantedCause{B: map[string]any{"stack": "tcp"}}).missing(); got != "" {
		t.Errorf("cells of wirelab miss %q", got)
	}
}

// The lists of this folder can be read.
func TestListsAreRead(t *testing.T) {
	for file, at := range map[string]int{"planted.yaml": 10, "blind.yaml": 30, "blind2.yaml": 30, "blind3.yaml": 20} {
		all, err := (&truth{file: file}).read()
		if err != nil || len(all) < at {
			t.Errorf("%s has %d causes, want %d or more: %v", file, len(all), at, err)
		}
	}
}

// The services answer with and without their faults, and are gone after their end. Of those in Go, one is started: the
// others have a test of their own.
func TestServices(t *testing.T) {
	folder := t.TempDir()
	tested := map[string]bool{}
	for _, file := range []string{"blind.yaml", "blind2.yaml", "blind3.yaml"} {
		all, err := (&truth{file: file}).read()
		if err != nil {
			t.Fatal(err)
		}
		for _, planted := range all {
			s := planted.Service
			if s == nil || s.Quota != 0 || tested[s.Program+"/"+s.Job] || s.Program == "go" && s.Job != "query" {
				continue
			}
			tested[s.Program+"/"+s.Job] = true
			if missing := planted.missing(); missing != "" {
				t.Logf("not tested: %s: %s", planted.Name, missing)
				continue
			}
			for _, fault := range []bool{false, true} {
				testService(t, folder, &planted, fault)
			}
		}
	}
}

func testService(t *testing.T, folder string, planted *plantedCause, fault bool) {
	p, err := (&truth{file: "blind.yaml", folder: folder}).start(t.Context(), folder, planted.Service, "", fault)
	if err != nil {
		t.Fatalf("%s: %v", planted.Name, err)
	}
	answer, err := http.Get("http://" + p.address + "/")
	if err != nil {
		t.Errorf("%s, fault %t: %v", planted.Name, fault, err)
	} else if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("%s, fault %t: status %d", planted.Name, fault, answer.StatusCode)
	}
	p.stop()
	if conn, err := net.Dial("tcp", p.address); err == nil {
		_ = conn.Close()
		t.Errorf("%s, fault %t: it listens after its end", planted.Name, fault)
	}
}
