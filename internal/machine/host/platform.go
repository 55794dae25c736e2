package host

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// cpuModel finds the processor's name in /proc/cpuinfo. Arm kernels print
// numbers only (MIDR_EL1), which still tell two machines apart.
func cpuModel(cpuinfo string) string {
	if model := labelled(cpuinfo, "model name"); model != "" {
		return model
	}
	if part := labelled(cpuinfo, "CPU part"); part != "" {
		return fmt.Sprintf("implementer %s part %s", labelled(cpuinfo, "CPU implementer"), part)
	}
	return ""
}

// mitigations returns the processor flaws that apply here and, in a few words,
// what the kernel does about each; they change the price of a system call.
func mitigations(root fs.FS) map[string]string {
	const folder = cpuFolder + "/vulnerabilities"
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, entry := range entries {
		state, err := readText(root, folder+"/"+entry.Name())
		if err != nil || state == "Not affected" {
			continue
		}
		state, _, _ = strings.Cut(state, ";")
		found[entry.Name()] = strings.TrimPrefix(state, "Mitigation: ")
	}
	return found
}

// virtualisation returns the kind of virtual machine or container that this is, or "".
func virtualisation(root fs.FS) string {
	var maker []string
	for _, name := range []string{"sys_vendor", "product_name"} {
		if text, err := readText(root, "sys/class/dmi/id/"+name); err == nil && text != "" {
			maker = append(maker, text)
		}
	}
	machine := strings.Join(maker, " ")
	if kind, err := readText(root, "sys/hypervisor/type"); err == nil {
		return strings.TrimSpace(kind + " guest " + machine)
	}
	cpuinfo, _ := readText(root, "proc/cpuinfo") // "" shows no sign, as it should
	if slices.Contains(strings.Fields(labelled(cpuinfo, "flags")), "hypervisor") {
		return strings.TrimSpace("guest " + machine)
	}
	return ""
}

// containers lists signs that this process sees only a part of its machine.
func containers(root fs.FS) []string {
	var hints []string
	for _, marker := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(root, marker); err == nil {
			hints = append(hints, "/"+marker)
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		hints = append(hints, "KUBERNETES_SERVICE_HOST is set")
	}
	// Outside every user namespace the map is the identity over 32 bits.
	if ids, err := readText(root, "proc/self/uid_map"); err == nil &&
		strings.Join(strings.Fields(ids), " ") != "0 0 4294967295" {
		hints = append(hints, "inside a user namespace")
	}
	return hints
}

// kernelOption finds one setting of the running kernel's build, such as
// CONFIG_HZ, and "" for one that is not set.
func kernelOption(root fs.FS, release, name string) (string, error) {
	config, err := openKernelConfig(root, release)
	if err != nil {
		return "", err
	}
	defer config.Close()
	const mostBytes = 4 << 20 // a full configuration takes 300 KiB
	lines := bufio.NewScanner(io.LimitReader(config, mostBytes))
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+"="); found {
			return value, nil
		}
	}
	return "", lines.Err()
}

func openKernelConfig(root fs.FS, release string) (io.ReadCloser, error) {
	if file, err := root.Open("boot/config-" + release); err == nil {
		return file, nil
	}
	file, err := root.Open("proc/config.gz")
	if err != nil {
		return nil, errors.New("the kernel's configuration is not published (/boot/config-*, /proc/config.gz)")
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack /proc/config.gz: %w", err), file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{unpacked, file}, nil
}
