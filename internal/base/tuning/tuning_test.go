package tuning

import (
	"reflect"
	"testing"
	"time"
)

type library struct {
	Limit   int
	Timeout time.Duration
	Hook    func()
	Handler any
	Kept    string
	hidden  int
}

func TestDifferencesListWhatIsSet(t *testing.T) {
	used := &library{Limit: 7, Timeout: time.Second, Hook: func() {}, Handler: 1, Kept: "same", hidden: 3}
	got := Differences(Client, "library", used, &library{Limit: 5, Kept: "same"}, Reasons{
		"Limit":   {Why: "more"},
		"Timeout": {Why: "bounded", Default: "none"},
		"Handler": NotASetting,
	})
	want := []Setting{
		{Client, "library.Limit", "7", "5", "more"},
		{Client, "library.Timeout", "1s", "none", "bounded"},
		{Client, "library.Hook", "set", "none", ""}, // nobody has given the reason: it is listed all the same
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAListAppliesWhatItDeclares(t *testing.T) {
	var l List[int]
	l.Add(Setting{Side: Server, Name: "a"}, 1, 2)
	l.Add(Setting{Side: Server, Name: "b"})
	l.Add(Setting{Side: Server, Name: "c"}, 3)
	if got := l.Options(); !reflect.DeepEqual(got, []int{1, 2, 3}) {
		t.Errorf("options %v", got)
	}
	if got := l.Settings(); len(got) != 3 || got[1].Name != "b" {
		t.Errorf("settings %v", got)
	}
}

func TestBothEndsAreListedOnce(t *testing.T) {
	declared := []Setting{{Both, "a", "1", "0", "x"}, {Server, "b", "1", "0", "x"}, {Client, "b", "2", "0", "x"}}
	joined := Join(SettingsOf(Server, declared), SettingsOf(Client, declared))
	if !reflect.DeepEqual(joined, declared) {
		t.Errorf("got %v", joined)
	}
}
