package unwind

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"

	"wirelab.dev/internal/machine/perfevent"
)

// FuzzRules reads damaged descriptions of functions, and follows what they say.
func FuzzRules(f *testing.F) {
	if file, err := elf.Open("/bin/sh"); err != nil {
		f.Log("no program with descriptions is a seed: ", err)
	} else if section := file.Section(".eh_frame"); section != nil {
		data, err := section.Data()
		entries, wrong := parseEntries(data, binary.LittleEndian, section.Addr)
		if err != nil || wrong != nil || len(entries) == 0 || findRule(entries[:1], entries[0].Begin()) == nil {
			f.Fatalf("/bin/sh: %d functions are described; %v, %v", len(entries), err, wrong)
		}
		f.Add(data[:min(len(data), 4<<10)], section.Addr, entries[0].Begin(), make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, data []byte, start, at uint64, stack []byte) {
		entries, err := parseEntries(data, binary.LittleEndian, start)
		if err != nil {
			return
		}
		if r := findRule(entries, at); r != nil {
			w := walk{stack: stack, from: 8}
			for range 3 {
				w.apply(r, true)
			}
		}
	})
}

// TestAStackOfZeros unwinds a stack of zeros.
func TestAStackOfZeros(t *testing.T) {
	u, err := New(os.Getppid())
	if err != nil || u == nil {
		t.Fatalf("the parent cannot be unwound: %v", err)
	}
	var registers perfevent.Registers
	registers.Value[pointers.stack] = 1 << 40
	if got := u.Unwind(registers, make([]byte, 1<<10)); len(got) != 1 {
		t.Errorf("a stack of zeros has callers: %x", got)
	}
}
