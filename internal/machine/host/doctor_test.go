package host

import (
	"context"
	"testing"
	"testing/fstest"
)

func TestDoctorExaminesThisMachine(t *testing.T) {
	seen := map[string]bool{}
	for _, finding := range Doctor(t.Context()) {
		t.Logf("%s: %s: %s (%s)", finding.Name, finding.Status, finding.Detail, finding.Remedy)
		if seen[finding.Name] {
			t.Errorf("%s twice", finding.Name)
		}
		seen[finding.Name] = true
		if finding.Detail == "" {
			t.Errorf("%s without detail", finding.Name)
		}
		switch finding.Status {
		case OK:
			if finding.Remedy != "" {
				t.Errorf("%s is ok, and yet: %s", finding.Name, finding.Remedy)
			}
		case Limited, Missing:
			if finding.Remedy == "" {
				t.Errorf("%s is %s, and no remedy", finding.Name, finding.Status)
			}
		default:
			t.Errorf("%s has status %q", finding.Name, finding.Status)
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d findings only", len(seen))
	}
}

func TestDoctorStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if findings := Doctor(ctx); len(findings) != 0 {
		t.Errorf("%d findings after the end", len(findings))
	}
}

func TestFindNetem(t *testing.T) {
	const release = "6.1.0-test"
	config := func(text string) map[string]string {
		return map[string]string{"boot/config-" + release: text}
	}
	tests := map[string]struct {
		root fstest.MapFS
		want Status
	}{
		"loaded":        {machine(map[string]string{"proc/modules": "veth 1 0\nsch_netem 20480 1 - Live 0x0\n"}), OK},
		"built in":      {machine(config("CONFIG_NET_SCH_NETEM=y\n")), OK},
		"loadable":      {machine(map[string]string{"lib/modules/" + release + "/modules.dep": "kernel/net/sched/sch_netem.ko.zst:\n"}), Limited},
		"not installed": {machine(config("CONFIG_NET_SCH_NETEM=m\n")), Missing},
		"left out":      {machine(config("# CONFIG_NET_SCH_NETEM is not set\n")), Missing},
		"unknown":       {machine(nil), Missing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			finding := examination{root: test.root, info: Info{Kernel: release}}.netem()
			if finding.Status != test.want {
				t.Errorf("%+v, want %s", finding, test.want)
			}
		})
	}
}

func namedCheck(t *testing.T, name string) func(examination) Finding {
	t.Helper()
	for _, check := range checks {
		if check.name == name {
			return check.examine
		}
	}
	t.Fatalf("no check is named %q", name)
	return nil
}

func TestGrades(t *testing.T) {
	tests := map[string]struct {
		check func(examination) Finding
		info  Info
		want  Status
	}{
		"quota":             {examination.quota, Info{Topology: Topology{QuotaCPUs: 1.5}}, Limited},
		"no quota":          {examination.quota, Info{}, OK},
		"performance":       {examination.governor, Info{Governor: "performance"}, OK},
		"powersave":         {examination.governor, Info{Governor: "powersave"}, Limited},
		"no governor":       {examination.governor, Info{}, Limited},
		"fast clock":        {examination.clocksource, Info{Clocksource: "tsc"}, OK},
		"slow clock":        {examination.clocksource, Info{Clocksource: "acpi_pm"}, Limited},
		"many descriptors":  {examination.descriptors, Info{FileLimit: FileLimit{Soft: 1024, Hard: 1 << 20}}, OK},
		"few descriptors":   {examination.descriptors, Info{FileLimit: FileLimit{Soft: 1024, Hard: 4096}}, Limited},
		"usual ports":       {examination.localPorts, Info{TCP: TCPInfo{FirstPort: 32768, LastPort: 60999}}, OK},
		"few ports":         {examination.localPorts, Info{TCP: TCPInfo{FirstPort: 60000, LastPort: 60999}}, Limited},
		"unreadable ports":  {examination.localPorts, Info{}, Limited},
		"no pressure files": {namedCheck(t, "pressure"), Info{}, Missing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.check(examination{root: machine(nil), info: test.info})
			if got.Status != test.want || (got.Remedy == "") != (test.want == OK) {
				t.Errorf("%+v, want %s", got, test.want)
			}
		})
	}
}
