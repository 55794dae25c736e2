package advice

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

func TestLooksSayWhatARunWasRepeatedFor(t *testing.T) {
	taken := []record.InterimLook{{Repeats: 3, Level: 0.03, Open: new(4), Of: new(12)}, {Repeats: 5, Level: 0.02}}
	for _, c := range []struct {
		until *record.Until
		want  []string
	}{
		{nil, nil},
		{&record.Until{Looks: taken, Begun: 9}, nil}, // damaged
		{
			&record.Until{Looks: taken, Begun: 1, Ended: "answered"},
			[]string{"Repeated until every comparison of the mean was decided: look 1 of at most 2, after 3 repeats. Verdicts and intervals are corrected for repeated looks."},
		},
		{
			&record.Until{Looks: taken, Begun: 1, Ended: "time", Width: 0.03},
			[]string{"Repeated until each mean was known within 3 %: look 1 of at most 2; after 3 repeats 4 of 12 means are still open, because no time was left for more. Verdicts and intervals are corrected for repeated looks."},
		},
		{
			&record.Until{Looks: []record.InterimLook{{Repeats: 3, Level: 0.03, Open: new(0), Of: new(12)}, {Repeats: 5, Level: 0.02}}, Begun: 1, Ended: "time"},
			[]string{"Repeated until every comparison of the mean was decided: look 1 of at most 2, after 3 repeats. Verdicts and intervals are corrected for repeated looks."},
		},
		{
			&record.Until{Looks: taken, Begun: 1, Ended: "repeats"},
			[]string{"Repeated until every comparison of the mean was decided: look 1 of at most 2; after 3 repeats 4 of 12 comparisons of the mean are still open, because no more repeats were allowed. Verdicts and intervals are corrected for repeated looks."},
		},
		{
			&record.Until{Looks: taken, Begun: 1, Ended: "nothing"},
			[]string{"Repeated until every comparison of the mean was decided: look 1 of at most 2; after 3 repeats 4 of 12 comparisons of the mean are still open, because more repeats would not decide them. Verdicts and intervals are corrected for repeated looks."},
		},
		{
			&record.Until{Looks: taken, Begun: 2},
			[]string{"Repeated until every comparison of the mean was decided: look 2 of at most 2 was not finished, and the trials are judged as if at that look. Verdicts and intervals are corrected for repeated looks."},
		},
	} {
		s := &analysis.Summary{Until: c.until}
		if got := repeatGoal(s); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.until, got, c.want)
		}
		if u := c.until; u != nil && u.Begun == 1 && *u.Looks[0].Open == 0 && missedGoal(s) != nil {
			t.Errorf("nothing is open: %q", missedGoal(s))
		}
	}
}
