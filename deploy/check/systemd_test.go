package check

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unit is a unit file: section, setting and values, in the order of the file.
type unit map[string]map[string][]string

// readUnit is stricter than systemd, which only warns: systemd.syntax(7).
func readUnit(t *testing.T, text string) (unit, error) {
	t.Helper()
	known := readSettings(t)
	u, section := unit{}, ""
	for number, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("line %d", number+1)
		switch {
		case line == "" || line[0] == '#':
			continue
		case strings.HasSuffix(line, `\`) || line != strings.TrimSpace(line):
			return nil, fmt.Errorf("%s: goes on, or has spaces around it", at)
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			if known[section] == nil {
				return nil, fmt.Errorf("%s: unknown section %s", at, line)
			}
			u[section] = map[string][]string{}
			continue
		}
		name, value, found := strings.Cut(line, "=")
		takes, isKnown := known[section][name]
		if !found || !isKnown {
			return nil, fmt.Errorf("%s: unknown setting %q in section %q", at, name, section)
		}
		if err := checkValue(name, takes, value); err != nil {
			return nil, fmt.Errorf("%s: %s=%s: %w", at, name, value, err)
		}
		u[section][name] = append(u[section][name], value)
	}
	return u, nil
}

// readSettings reads what systemd says of itself: what each setting of a section takes.
func readSettings(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/systemd-settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	known, section := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, takes, ok := strings.Cut(line, "="); ok && section != "" {
			known[section][name] = takes
		} else if line[0] == '[' {
			section = strings.Trim(line, "[]")
			known[section] = map[string]string{}
		}
	}
	return known
}

// forms describe values, by what systemd says that a setting takes, or by the setting. A
// setting that is in none of them is refused: add it, with its form.
var forms = map[string]string{
	"BOOLEAN":               `yes|no`,
	"STRING":                `.+`,
	"URL":                   `https://\S+`,
	"UNIT [...]":            `[a-z-]+\.(target|service)`,
	"SECONDS":               `\d+`,
	"PATH [ARGUMENT [...]]": `/[^\s]+( \S+)*`,
	"FILE":                  `/\S+`,
	"LIMIT":                 `\d+|infinity`,
	"MODE":                  `0[0-7]{3}`,
	"ENVIRON":               `[A-Z_]+=\S+( [A-Z_]+=\S+)*`,
	"STATUS":                `\d+`,
	"SERVICETYPE":           `simple|exec|notify`,
	"SERVICERESTART":        `no|always|on-failure`,
	"KILLMODE":              `control-group|mixed`,
	"OUTPUT":                `null|journal`,
	"POLICY":                `auto|closed|strict`,
	"BOUNDINGSET":           `(CAP_(SYS_NICE|PERFMON|BPF|NET_ADMIN)( |$))*`,
	"ARCHS":                 `native`,
	"SYSCALLS":              `@system-service`,
	"ERRNO":                 `EPERM`,
	"NAMESPACES":            `yes|no`,
	"FAMILIES":              `AF_(INET|INET6|UNIX|NETLINK)( AF_(INET|INET6|UNIX|NETLINK))*`,
	"of WorkingDirectory":   `%S/[a-z-]+`,
	"of OOMPolicy":          `continue|stop|kill`,
	"of TimeoutStopSec":     `\d+`,
	"of LoadCredential":     `[a-z]+:/\S+`,
	"of User":               `[a-z]+`,
	"of StateDirectory":     `[a-z-]+`,
	"of ProtectSystem":      `strict`,
	"of ProtectHome":        `yes`,
	"of ProtectProc":        `invisible`,
	"of KeyringMode":        `private`,
	"of WantedBy":           `multi-user\.target`,
}

func checkValue(name, takes, value string) error {
	form, ok := forms["of "+name]
	if !ok {
		form, ok = forms[takes]
	}
	if !ok {
		return fmt.Errorf("its form (%s) is not known to this test", takes)
	}
	if !regexp.MustCompile(`^(` + form + `)$`).MatchString(value) {
		return fmt.Errorf("want %s", form)
	}
	return nil
}

// costly are settings that cost what is measured: by a filter that all system calls pass
// (systemd.exec(5); DynamicUser= implies RestrictSUIDSGID=), by a program that all packets pass,
// or by stopping or moving workers (systemd.resource-control(5)).
var costly = []string{
	"SystemCallFilter", "SystemCallArchitectures", "SystemCallLog", "RestrictAddressFamilies", "RestrictNamespaces",
	"RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock",
	"ProtectHostname", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "DynamicUser",
	"IPAddressAllow", "IPAddressDeny", "IPAccounting", "SocketBindAllow", "SocketBindDeny", "RestrictNetworkInterfaces",
	"CPUQuota", "CPUAffinity", "AllowedCPUs", "Nice", "CPUSchedulingPolicy", "MemoryHigh",
}

// checkUnit says what is wrong with a unit.
func checkUnit(t *testing.T, name, text string) error {
	t.Helper()
	u, err := readUnit(t, text)
	if err != nil {
		return err
	}
	service := u["Service"]
	for setting, want := range map[string]string{
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "Restart": "always",
	} {
		if !slices.Equal(service[setting], []string{want}) {
			return fmt.Errorf("%s=%v, want %s", setting, service[setting], want)
		}
	}
	if service["CapabilityBoundingSet"] == nil || service["User"] == nil && service["DynamicUser"] == nil {
		return errors.New("keeps the capabilities of root, or is root")
	}
	if strings.Contains(name, "agent") {
		for _, setting := range costly {
			if service[setting] != nil {
				return fmt.Errorf("%s costs what is measured", setting)
			}
		}
	}
	return checkVariables(t, service)
}

var variable = regexp.MustCompile(`\$\{?([A-Z_]+)\}?`)

// checkVariables holds what the command takes from its environment against the examples.
func checkVariables(t *testing.T, service map[string][]string) error {
	t.Helper()
	var used []string
	for _, m := range variable.FindAllStringSubmatch(service["ExecStart"][0], -1) {
		used = append(used, m[1])
	}
	examples := []string{filepath.Base(service["EnvironmentFile"][0])}
	if examples[0] == "agent.env" {
		examples = append(examples, "server.env")
	}
	for _, example := range examples {
		var set []string
		for line := range strings.Lines(read(t, "systemd/"+example)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' && value != "" {
				set = append(set, name)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(used)), slices.Sorted(slices.Values(set))) {
			return fmt.Errorf("uses the variables %v, and %s has %v", used, example, set)
		}
	}
	return nil
}

var units = []string{"systemd/wirelab-agent.service", "systemd/wirelab-hub.service"}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, name := range units {
		if err := checkUnit(t, name, read(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const agent, hub = "systemd/wirelab-agent.service", "systemd/wirelab-hub.service"
	mustFind(t, []mistake{
		{name: "an unknown setting", file: hub, old: "ProtectSystem=", new: "ProtectSystems=", want: `unknown setting "ProtectSystems"`},
		{name: "other letters", file: agent, old: "LimitNOFILE=", new: "LimitNoFile=", want: `unknown setting "LimitNoFile"`},
		{name: "a setting of another section", file: agent, old: "[Unit]\n", new: "[Unit]\nUser=wirelab\n", want: `unknown setting "User" in section "Unit"`},
		{name: "an unknown section", file: agent, old: "[Install]", new: "[Installation]", want: "unknown section"},
		{name: "neither yes nor no", file: hub, old: "PrivateTmp=yes", new: "PrivateTmp=ja", want: "want yes|no"},
		{name: "no number", file: hub, old: "LimitNOFILE=65536", new: "LimitNOFILE=many", want: "LimitNOFILE=many"},
		{name: "no path", file: agent, old: "ExecStart=/usr", new: "ExecStart=usr", want: "ExecStart=usr"},
		{name: "an unknown capability", file: agent, old: "CAP_SYS_NICE", new: "CAP_NICE", want: "CAP_NICE"},
		{name: "a way of starting", file: hub, old: "Restart=always", new: "Restart=ever", want: "Restart=ever"},
		{name: "no restart", file: hub, old: "Restart=always", new: "Restart=no", want: "want always"},
		{name: "a filter on what is measured", file: agent, old: "PrivateIPC=yes", new: "LockPersonality=yes", want: "costs what is measured"},
		{name: "root", file: agent, old: "User=wirelab\n", new: "", want: "is root"},
		{name: "a variable", file: agent, old: "${WIRELAB_NATS}", new: "${WIRELAB_URL}", want: "WIRELAB_URL"},
	}, checkUnit)
}

// systemd's own check, where it is installed. It only warns of what it does not know.
func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: only this package's own check was made")
	}
	verify := func(t *testing.T, name, text string) error {
		t.Helper()
		path := filepath.Join(t.TempDir(), filepath.Base(name))
		text = strings.Replace(text, "/usr/local/bin/wirelab", "/bin/true", 1) // it asks for the program
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		said, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
		var of []string // the unit; it says of this machine's others, too
		for line := range bytes.Lines(said) {
			if bytes.Contains(line, []byte(filepath.Base(path))) {
				of = append(of, string(line))
			}
		}
		if len(of) > 0 {
			return fmt.Errorf("systemd-analyze: %s (%w)", strings.Join(of, ""), err)
		}
		return err
	}
	for _, name := range units {
		if err := verify(t, name, read(t, name)); err != nil {
			t.Error(err)
		}
	}
	mustFind(t, []mistake{
		{name: "an unknown setting", file: units[0], old: "OOMPolicy=", new: "OOMPolicies=", want: "OOMPolicies"},
		{name: "a value", file: units[1], old: "SystemCallFilter=@system-service", new: "SystemCallFilter=@system-services", want: "@system-services"},
	}, verify)
}
