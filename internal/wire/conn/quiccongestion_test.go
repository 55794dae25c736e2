package conn

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quic-go does not tell its congestion control, so its source is asked.
func TestQUICHasTheCongestionControlThatIsRecorded(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quic-go/quic-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "internal/ackhandler/sent_packet_handler.go"))
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?s)NewCubicSender\((.*?)\n\t*\)`).FindAllSubmatch(source, -1)
	if len(made) == 0 {
		t.Fatal("no sender is made: quic-go has changed; look what it has now")
	}
	for _, sender := range made {
		if reno := strings.Contains(string(sender[1]), "true, // use Reno"); !reno || QUICCongestion != "reno" {
			t.Errorf("recorded as %s, made as %s", QUICCongestion, sender[1])
		}
	}
}
