package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// standardRepository is the name of the image that MakeStandard makes.
const standardRepository = "glovebox/sandbox"

// debian is the release that the standard image is of.
const debian = "bookworm"

// standardPackages are what the standard image has beside the base system: a
// browser with letters for all that pages are written in, and the programs that
// agents reach for.
var standardPackages = []string{
	"ca-certificates", "chromium", "curl", "fonts-liberation", "fonts-noto-cjk", "fonts-noto-color-emoji",
	"git", "less", "nodejs", "procps", "python3", "ripgrep",
}

// leftOut are the files of packages that nobody looks for in a sandbox.
var leftOut = []string{"/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"}

// StandardImage is the reference of this version's standard image.
func (p *Provider) StandardImage() string {
	if p.opts.Version == "" {
		return standardRepository + ":dev"
	}
	return standardRepository + ":" + nameable(p.opts.Version)
}

// MakeStandard makes the standard image: Debian with a browser, on Debian's own
// image where a registry has it for us, else of Debian's packages alone, which
// needs mmdebstrap on this machine. That takes minutes; report, which may be nil,
// is told how far it has come. An image that is there already is left alone, and
// whoever comes while another makes it waits for that. When ctx ends first, nothing
// is left of it.
func (p *Provider) MakeStandard(ctx context.Context, report func(sandbox.Step)) (ref string, err error) {
	return p.StandardImage(), p.ensure(ctx, p.standard(), report)
}

// ensure makes an image that is not there.
func (p *Provider) ensure(ctx context.Context, r recipe, report func(sandbox.Step)) error {
	if report == nil {
		report = func(sandbox.Step) {}
	}
	unlock, err := p.starting.lock(ctx, "image "+r.ref)
	if err != nil {
		return fmt.Errorf("make %s: %w", r.ref, err)
	}
	defer unlock()
	there, err := p.ImageExists(ctx, r.ref)
	if err != nil || there {
		return err
	}
	return p.makeImage(ctx, r, report)
}

func (p *Provider) standard() recipe {
	return recipe{
		name: "standard", ref: p.StandardImage(), base: "debian:" + debian + "-slim",
		script: standardScript(), bootstrap: bootstrapDebian,
		env: []string{tinyPath, "LANG=C.UTF-8"}, command: []string{"bash"}, workdir: "/workspace",
	}
}

// standardScript installs the standard image's packages. That the index could not
// be fetched shows only in the installation.
func standardScript() string {
	var s strings.Builder
	s.WriteString("set -e\nexport DEBIAN_FRONTEND=noninteractive\n: >/etc/dpkg/dpkg.cfg.d/glovebox\n")
	for _, pattern := range leftOut {
		fmt.Fprintf(&s, "echo 'path-exclude=%s' >>/etc/dpkg/dpkg.cfg.d/glovebox\n", pattern)
	}
	s.WriteString("apt-get -q update\napt-get -q -y --no-install-recommends install " + strings.Join(standardPackages, " ") + "\n")
	s.WriteString("apt-get clean\nrm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old\nmkdir -p /workspace\n")
	return s.String()
}
