package report

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/table"
)

func TestFleetIsSaidInOneLine(t *testing.T) {
	run := fixtureFleet(t)
	const want = "Fleet: 4 client agents (client-1, 3 more) against server-1; clocks ±38 µs, windows within 52 µs."
	if !slices.Contains(run.Answer, want) || len(run.Answer) > words.MaxLines {
		t.Errorf("%q: want a line %q, of %d at most", run.Answer, want, words.MaxLines)
	}
	for i := range run.Summary.Fleet.Agents {
		run.Summary.Fleet.Agents[i].Name = string(rune('a' + i))
	}
	const all = "Fleet: 4 client agents (b, c, d, e) against a; clocks ±38 µs, windows within 52 µs."
	if answer := advice.Answer(run.Summary); !slices.Contains(answer, all) {
		t.Errorf("%q: want %q", answer, all)
	}
	run.Summary.Fleet.Agents[1].Name = strings.Repeat("long", 20)
	for _, line := range advice.Answer(run.Summary) {
		if utf8.RuneCountInString(line) > words.MaxLineLength {
			t.Errorf("the line is too long: %q", line)
		}
	}
}

// --json has the agents and, in each cell, what each client did.
func TestFleetInJSON(t *testing.T) {
	run := fixtureFleet(t)
	var out bytes.Buffer
	if err := WriteJSON(&out, run); err != nil {
		t.Fatal(err)
	}
	var told struct {
		Fleet analysis.Fleet
		Cells []struct {
			Stack        string
			Agents       int
			Valid        bool                 `json:"valid"`
			FleetClients []matrix.FleetClient `json:"fleet_clients"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if f := told.Fleet; f.ClockErrorUS != 38 || f.OpenedApartUS != 52 || len(f.Agents) != 5 || f.Agents[0].Role != "server" || f.Agents[4].Trials != 2*fleetTrials {
		t.Errorf("fleet %+v", f)
	}
	for _, cell := range told.Cells {
		if cell.Agents != 4 || len(cell.FleetClients) != 4 || cell.Valid != (cell.Stack == "tcp") {
			t.Fatalf("%s is valid: %v, on %d agents, and it has the figures of %d", cell.Stack, cell.Valid, cell.Agents, len(cell.FleetClients))
		}
		for i, c := range cell.FleetClients {
			mean := float64(fleetCall(cell.Stack, i)) / 1e3
			near := func(what string, got *float64, want float64) {
				if got == nil || math.Abs(*got/want-1) > 0.002 {
					t.Errorf("%s, %s: %s is %v, want %v", cell.Stack, c.Agent, what, got, want)
				}
			}
			busy := 0.5
			if cell.Stack == "grpc" && c.Agent == slowAgent {
				busy = 0.99
			}
			near("throughput", &c.Throughput, fleetCalls)
			near("P50", c.P50, mean)
			near("P99", c.P99, 1.49*mean)
			near("CPU", c.CPU, 2*busy*1e6/fleetCalls)
			near("busy", c.Busy, busy)
			if want := "generator-bound: the client used 99 %"; busy == 0.5 && c.Level != "ok" || busy > 0.5 && (c.Level != "invalid" || !strings.HasPrefix(c.Detail, want)) {
				t.Errorf("%s, %s: %s, %s", cell.Stack, c.Agent, c.Level, c.Detail)
			}
		}
	}
}

// The table says from how many machines, and names the agent that spoiled a cell.
func TestFleetInTheTable(t *testing.T) {
	run := fixtureFleet(t)
	var out strings.Builder
	if err := table.WriteTable(&out, run.Summary, table.Table{}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"100 clients, closed loop, from 4 agents of a fleet", "refused, generator-bound: client-4: the client used 99 %"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, out.String())
		}
	}
}

// A cell that one machine measured, and one that four did, are two in a comparison of runs.
func TestFleetDiffersFromOneMachine(t *testing.T) {
	four, one := fixtureFleet(t), fixtureFleet(t)
	for _, r := range one.Records {
		r.Cell.Agents, r.Fleet = 0, nil
	}
	m := fleetManifest()
	again, err := analysis.Summarize(&m, analysis.JudgedTrials{Records: one.Records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	_, err = analysis.NewDiff(four.Summary, again)
	if err == nil || !strings.Contains(err.Error(), "clients on 4 agents of a fleet") {
		t.Errorf("%v: want no cell in common, and why", err)
	}
}

// A run of one trial is shown by itself, with one line per client.
func TestFleetOfAService(t *testing.T) {
	run := fixtureFleet(t)
	var text strings.Builder
	if err := table.WriteLoad(&text, run.Summary, table.Table{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"4 client agents (client-1, client-2, 2 more) against server-1; clocks ±38 µs, windows within", "client-1: 25 clients, 20,000/s, P99 149µs, 50% of its CPUs busy, ok", "client-4: 25 clients, 20,000/s, P99 273µs, 99% of its CPUs busy, invalid"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("the lines lack %q:\n%s", line, text.String())
		}
	}
}

func TestFleetPageInBrowser(t *testing.T) {
	browser := startBrowser(t)
	tab := browser.open(t, writePage(t, fixtureFleet(t))+"#machines")
	const rows = `[...document.querySelectorAll("#machines tbody tr")]`
	tab.want("agents", rows+`.map(tr => tr.children[0].textContent + " " + tr.children[1].textContent).join()`, "server-1 server,client-1 client,client-2 client,client-3 client,client-4 client")
	tab.want("the server's clock", rows+`[0].children[5].textContent + " ± " + `+rows+`[0].children[6].textContent`, "−2.50 ms ± 30.0 µs")
	tab.screenshotOf("fleet-machines", "#machines")
	tab.click(`[...document.querySelectorAll("#cells .opener")].find(b => b.textContent.includes("grpc"))`)
	const clients = `[...document.querySelectorAll(".fleet tbody tr")]`
	tab.want("clients", clients+`.length`, "4")
	tab.want("the bottleneck", clients+`[3].textContent.includes("invalid: generator-bound: the client used 99 %")`, "true")
	tab.screenshotOf("fleet-cell", ".detail")
	tab.screenshot("fleet")
}
