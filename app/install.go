package app

import (
	"os"
	"os/exec"
)

// What to do where a wall is missing; the line that does it here is installLine's.
const (
	fixDocker    = "install a Docker engine and start it"
	fixNamespace = "install bubblewrap"
)

// packages are the managers that we know, each with its line and what it calls
// an engine; all call bubblewrap alike.
var packages = []struct{ program, line, engine string }{
	{"apt-get", "apt-get install ", "docker.io"},
	{"dnf", "dnf install ", "moby-engine"},
	{"zypper", "zypper install ", "docker"},
	{"pacman", "pacman -S ", "docker"},
	{"apk", "apk add ", "docker"},
}

// engineLine returns what gives this machine an engine: the start of one that
// is installed, else its installation. It is "" where we do not know.
func engineLine() string {
	start := ""
	if isThere("systemctl") {
		start = "systemctl start docker"
	}
	if isThere("dockerd") {
		if start == "" {
			start = "dockerd"
		}
		return asRoot(start)
	}
	line := packageLine(true)
	if line != "" && start != "" {
		line += " && " + asRoot(start)
	}
	return line
}

// bubblewrapLine returns what installs bubblewrap here, or "".
func bubblewrapLine() string { return packageLine(false) }

func packageLine(engine bool) string {
	for _, p := range packages {
		if !isThere(p.program) {
			continue
		}
		if engine {
			return asRoot(p.line + p.engine)
		}
		return asRoot(p.line + "bubblewrap")
	}
	return ""
}

func asRoot(line string) string {
	if os.Geteuid() == 0 {
		return line
	}
	return "sudo " + line
}

func isThere(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
