// Abtruth measures how often wirelab ab finds a planted difference, and how often it finds one where
// there is none:
//
//	abtruth -wirelab bin/wirelab -runs 10 -planted 10 -burners 1
//
// Both versions are this program. The head does as many percent more work for each answer as were
// planted. It prints one line per run and the counts, and makes no judgement of its own.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	var t truth
	flag.StringVar(&t.wirelab, "wirelab", "bin/wirelab", "the `program` to examine")
	flag.IntVar(&t.runs, "runs", 10, "number of `runs`")
	flag.Float64Var(&t.planted, "planted", 10, "how many `percent` more work the head does for an answer; 0 plants nothing")
	flag.IntVar(&t.burners, "burners", 1, "`programs` that use a CPU meanwhile")
	flag.DurationVar(&t.budget, "budget", 2*time.Minute, "longest `time` of a run")
	flag.IntVar(&t.rounds, "rounds", 2000, "`rounds` of SHA-256 for an answer of the base")
	flag.Parse()
	if err := t.measure(); err != nil {
		fmt.Fprintln(os.Stderr, "abtruth:", err)
		os.Exit(1)
	}
}

// serve answers each request after some rounds of work.
func serve(rounds string) {
	var n int
	if _, err := fmt.Sscan(rounds, &n); err != nil {
		panic(err)
	}
	handler := func(w http.ResponseWriter, _ *http.Request) {
		sum := sha256.Sum256(nil)
		for range n {
			sum = sha256.Sum256(sum[:])
		}
		_, _ = w.Write(sum[:4]) // the client may be gone
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(handler))) //nolint:gosec // on loopback, for minutes
	os.Exit(1)
}

type truth struct {
	wirelab               string
	runs, burners, rounds int
	planted               float64
	budget                time.Duration
}

func (t *truth) measure() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range t.burners {
		burner := exec.Command("sh", "-c", "while :; do :; done")
		if err := burner.Start(); err != nil {
			return err
		}
		defer func() {
			_ = burner.Process.Kill()
			_ = burner.Wait() // it was killed
		}()
	}
	found := map[string]int{}
	for run := range t.runs {
		began := time.Now()
		verdict, err := t.compare(self)
		if err != nil {
			return err
		}
		found[verdict.Verdict]++
		fmt.Fprintf(os.Stdout, "run %d: %s, %+.1f %%, in %v\n", run+1, verdict.Verdict, 100*(verdict.Ratio-1), time.Since(began).Round(time.Second))
	}
	fmt.Fprintf(os.Stdout, "planted %+.0f %%, %d burners, %d runs: %v\n", t.planted, t.burners, t.runs, found)
	return nil
}

type difference struct {
	Metric, Verdict string
	Ratio           float64
}

// compare returns the verdict on the mean.
func (t *truth) compare(self string) (difference, error) {
	head := int(float64(t.rounds) * (1 + t.planted/100))
	command := exec.Command(t.wirelab, "ab", fmt.Sprintf("%s serve %d", self, t.rounds), fmt.Sprintf("%s serve %d", self, head), //nolint:gosec // the program under test
		"http://127.0.0.1:$PORT/", "-c", "4", "--budget", t.budget.String(), "--json")
	folder, err := os.MkdirTemp("", "abtruth-")
	if err != nil {
		return difference{}, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	command.Args = append(command.Args, "-o", folder+"/run")
	output, err := command.Output()
	const cannotTell = 4
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() != cannotTell {
		return difference{}, fmt.Errorf("%w: %s", err, failed.Stderr)
	} else if err != nil && !is {
		return difference{}, err
	}
	var printed struct {
		Since struct{ Differences []difference }
	}
	if err := json.Unmarshal(output, &printed); err != nil {
		return difference{}, err
	}
	for _, d := range printed.Since.Differences {
		if d.Metric == "mean" {
			return d, nil
		}
	}
	return difference{Verdict: "nothing compared"}, nil
}
