package protocol

import (
	"testing"
)

// What an agent says of itself does not steer the terminal that shows it.
func TestCardsAreShownAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		card  Card
		plain bool
	}{
		"usual":           {Card{Machine: "linux 6.18 AMD EPYC™", Labels: map[string]string{"role": "client", "zone": "a"}}, true},
		"colours":         {Card{Machine: "\x1b[31mlinux"}, false},
		"another line":    {Card{Version: "1\nagent gone"}, false},
		"a label's value": {Card{Labels: map[string]string{"role": "client\x1b]0;x\a"}}, false},
		"a label's key":   {Card{Labels: map[string]string{"ro\rle": "client"}}, false},
	} {
		if got := c.card.isPrintable(); got != c.plain {
			t.Errorf("%s: plain: %v, want %v", name, got, c.plain)
		}
	}
}
