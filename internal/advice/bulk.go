package advice

import (
	"fmt"
	"strings"
)

const (
	// bulkBytes is what a call must carry to be bulk.
	bulkBytes = 1 << 20
	gigabyte  = 1e9
)

// bulk says of a part whose calls carry bulk what a gigabyte costs its server, and how
// many of them go over the wire in a second; on a schedule, which says that itself,
// how many cores it takes.
func bulk(f *field) []string {
	if len(f.sizes) == 0 || len(f.clients) == 0 {
		return nil
	}
	var texts []string
	var first float64
	for _, v := range f.variants {
		c := f.cell(v, spot{f.sizes[0], f.clients[0]})
		if c == nil || c.ServerCPU == nil || c.Wire == nil {
			continue
		}
		carried := c.Wire.Request.Message.Value + c.Wire.Response.Message.Value
		if carried < bulkBytes {
			return nil
		}
		seconds := c.ServerCPU.Value / 1e6 / carried * gigabyte
		text := fmt.Sprintf("%s %s s", v, number(seconds))
		if first == 0 {
			first = seconds
		} else {
			text += fmt.Sprintf(" (%s times)", number(seconds/first))
		}
		if f.closed() {
			text += fmt.Sprintf(" at %s GB/s", number(c.Throughput.Value*carried/gigabyte))
		} else if c.Server.Cores != nil {
			text += fmt.Sprintf(", %s cores", number(c.Server.Cores.Value))
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("CPU time of the server for a GB in %s, with %s: %s.", f.part, clients(f.clients[0]), strings.Join(texts, "; "))}
}
