package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"size", "sizes", 1}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestTheNearestWordIsSuggested(t *testing.T) {
	words := []string{"concurrency", "requests", "rps"}
	for word, want := range map[string]string{
		"concurency": "did you mean concurrency?",
		"reuqests":   "did you mean requests?",
		"rsp":        "did you mean rps?",
		"goal":       "want one of concurrency, requests, rps",
	} {
		if got := Suggest(word, words); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
}
