package link

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
	"wirelab.dev/rpc/creditrpc/internal/link/progress"
)

// TestThePagesNumbers holds the tables of docs/creditrpc.md against the code.
func TestThePagesNumbers(t *testing.T) {
	bytes, err := os.ReadFile("../../../../docs/creditrpc.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(bytes)
	for _, table := range []struct {
		head string
		want map[string]uint64
	}{
		{"| frame | type | sent by | stream | payload |", map[string]uint64{
			"Hello": uint64(frame.Hello), "Method": uint64(frame.Method), "Request": uint64(frame.Request), "Data": uint64(frame.Data),
			"Header": uint64(frame.Header), "Status": uint64(frame.Status), "Cancel": uint64(frame.Cancel), "Credit": uint64(frame.Credit),
			"Ping": uint64(frame.Ping), "Goodbye": uint64(frame.Goodbye),
		}},
		{"| flag | bit | of | meaning |", map[string]uint64{
			"More": uint64(frame.More), "End": uint64(frame.End), "Nothing": uint64(frame.Nothing), "Long": uint64(frame.Long), "Answer": uint64(frame.Answer),
		}},
		{"| setting | key | value |", settingKeys(t)},
		{"| what | value |", map[string]uint64{
			"version": frame.Version, "bytes of a frame's header": frame.HeaderLen,
			"longest payload of Request and Data": frame.MaxPayload, "longest payload of others, without metadata": frame.MaxOtherPayload,
			"what a frame costs beside its payload": credit.Overhead, "least Window and PerStream": credit.MinWindow,
			"largest setting": maxSetting, "largest grant": frame.MaxGrant, "largest MaxMeta that counts": MaxMeta,
			"most methods of a connection": maxMethods, "longest name of a method": maxMethodName,
			"unwritten bytes that need no credit, beyond which a server stops reading": maxAnswers, "calls after which a client opens another connection": maxCalls,
			"frames that make no progress, at once": progress.MaxUseless, "frames that make no progress, per second": progress.UselessPerSecond,
			"frames that make no progress, for each frame that does": progress.UselessPerFrame,
			"Credits for each Request and Data":                      progress.GrantsPerFrame, "bytes of payload for each further Credit": progress.BytesPerGrant,
			"other frames than Data for a call that is over": progress.EndsPerCall,
		}},
	} {
		_, rows, found := strings.Cut(page, table.head+"\n")
		rows, _, _ = strings.Cut(rows, "\n\n")
		got := map[string]uint64{}
		for _, row := range row.FindAllStringSubmatch(rows, -1) {
			if got[row[1]], err = strconv.ParseUint(strings.ReplaceAll(row[2], ",", ""), 0, 64); err != nil {
				t.Error(err)
			}
		}
		if !found || fmt.Sprint(got) != fmt.Sprint(table.want) {
			t.Errorf("the table %q has\n%v\nand the code\n%v", table.head, got, table.want)
		}
	}
	if frame.MaxPayload != credit.Turn {
		t.Error("the longest payload is not a turn")
	}
}

var row = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9a-fx,]+) \|`)

// settingKeys finds each setting's key on the wire.
func settingKeys(t *testing.T) map[string]uint64 {
	keys := map[string]uint64{}
	for key := uint64(1); key <= 5; key++ {
		payload := binary.AppendUvarint(binary.AppendUvarint([]byte("CRPC\x01"), key), 77)
		s, err := frame.ReadHello(payload)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]uint64{"Window": s.Window, "PerStream": s.PerStream, "Calls": s.Calls, "MaxMessage": s.MaxMessage, "MaxMeta": s.MaxMeta} {
			if value == 77 {
				keys[name] = key
			}
		}
	}
	return keys
}
