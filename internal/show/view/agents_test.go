package view

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/show/report/format"
)

// fleetOf returns a server and clients that are fine, but for three of 1,000.
func fleetOf(clients int) []live.Agent {
	agents := []live.Agent{{Name: "s", Role: "server", CPU: new(0.5)}}
	for i := range clients {
		agents = append(agents, live.Agent{Name: fmt.Sprintf("c%d", i), Role: "client", Rate: new(1234.6), CPU: new(float64(i) / 2000)})
	}
	return agents
}

// A table of 1,000 agents shows the ten worst, and sums up all.
func TestAgentTableShowsTheWorst(t *testing.T) {
	agents := fleetOf(1000)
	agents[500].Health, agents[500].Remark = live.Silent, "silent for 4 s"
	agents[700].Health, agents[700].Remark = live.Lost, "lost"
	agents[3].Health, agents[3].Remark = live.Disturbed, "other programs use 51 % of its machine"
	table := newAgentTable(agents, maxAgentRows)
	if len(table.Rows) != maxAgentRows {
		t.Fatalf("%d rows, want %d", len(table.Rows), maxAgentRows)
	}
	for i, want := range []string{"c699 client 1,235 35 % lost", "c499 client 1,235 25 % silent for 4 s", "c2 client 1,235 0 % other programs use 51 % of its machine", "s server – 50 % fine", "c999 client 1,235 50 % fine"} {
		if got := strings.Join(table.Rows[i].Cells, " "); got != want || table.Rows[i].Wrong != (i < 3) {
			t.Errorf("row %d is %q, wrong: %v; want %q", i, got, table.Rows[i].Wrong, want)
		}
	}
	const want = "1001 agents: 1 lost, 1 silent, 1 disturbed by other programs, 998 fine; the busiest is s with 50 % of its CPUs; the worst 10 are shown"
	if got := strings.ReplaceAll(table.Summary, ",001", "001"); got != want {
		t.Errorf("the summary is\n%s\nwant\n%s", got, want)
	}
	unknown := newAgentTable([]live.Agent{{Name: "c", Role: "client"}}, maxAgentRows)
	if got := strings.Join(unknown.Rows[0].Cells, " "); got != "c client – – fine" || unknown.Summary != "1 agent: 1 fine" {
		t.Errorf("an agent without figures: %q, %q", got, unknown.Summary)
	}
	if newAgentTable(nil, maxAgentRows) != nil {
		t.Error("without a fleet there is a table")
	}
}

// With a table of agents, the views still fit a terminal of 24 lines.
func TestAgentsFitTheTerminal(t *testing.T) {
	now := time.Now()
	run := runContent{title: "look", at: RunProgress{Trials: 2}, last: "x", sparks: &sparklines{}}
	for range maxSparkRows {
		run.sparks.rows = append(run.sparks.rows, sparkRow{"tcp", []sparkCell{{rate: 1}, {rate: 2}}})
	}
	run.progress(live.Progress{Agents: fleetOf(1000)}, now)
	run.progress(live.Progress{}, now) // a progress without agents leaves the table
	load := loadContent{trials: 2, running: true, last: "x", keys: true, began: now}
	load.progress(live.Progress{Agents: fleetOf(1000), Live: &live.Calls{Total: live.Total{Ended: 9, Failed: 1}, InFlight: live.UnknownInFlight}}, now)
	for name, lines := range map[string][]string{"run": run.lines(format.Terminal{Width: 70}, now), "load": load.lines(format.Terminal{Width: 70}, now)} {
		text := strings.Join(lines, "\n")
		if len(lines) > 23 || !strings.Contains(text, "c999   client       1,235  50 %  fine") || !strings.Contains(text, "agents: ") {
			t.Errorf("%s: %d lines\n%s", name, len(lines), text)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > 70 {
				t.Errorf("%s: a line of %d: %q", name, n, line)
			}
		}
	}
	load.now.Agents[5].Health = live.Lost
	if line := load.plainLine(now); !strings.Contains(line, "; 1,001 agents: 1 lost, 1,000 fine") && !strings.Contains(line, "; 1001 agents: 1 lost, 1,000 fine") {
		t.Errorf("the plain line is %q", line)
	}
}

// A reader of the live page gets the table during a trial.
func TestLivePageSendsAgents(t *testing.T) {
	l := &Page{changed: make(chan struct{}), over: make(chan struct{})}
	l.Observe(live.Progress{Agents: fleetOf(1)})
	if l.agents != nil {
		t.Error("a table was made although nobody reads")
	}
	server := httptest.NewServer(http.HandlerFunc(l.handleEvents))
	defer server.Close()
	defer close(l.over)
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	l.Observe(live.Progress{Agents: fleetOf(1)})
	l.Observe(live.Progress{Agents: fleetOf(2)}) // too soon after the first
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && lines.Text() != "event: agents" {
	}
	lines.Scan()
	var got agentTable
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &got); err != nil || len(got.Rows) != 2 {
		t.Errorf("the table is %q: %v", lines.Text(), err)
	}
}
