package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// tinyRepository is the name of the image that ImportTiny makes.
const tinyRepository = "glovebox/tiny"

// tinyPath is the PATH of the tiny image.
const tinyPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// TinyImage is the reference of this version's tiny image.
func (p *Provider) TinyImage() string {
	if p.opts.Version == "" {
		return tinyRepository + ":dev"
	}
	return tinyRepository + ":" + nameable(p.opts.Version)
}

// ImageExists reports whether the engine has an image. It asks no registry.
func (p *Provider) ImageExists(ctx context.Context, ref string) (bool, error) {
	if _, err := p.connect(ctx); err != nil {
		return false, err
	}
	_, err := call(ctx, p, "inspect image "+ref, readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, ref)
	})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// ImportTiny makes the tiny image: the host's static busybox and the few files
// that a shell needs, without a registry and in about a second. progress, which
// may be nil, is told each step. An image that is there already is left alone,
// and whoever comes while another makes it waits for that. When ctx ends first,
// nothing is left of it.
func (p *Provider) ImportTiny(ctx context.Context, progress func(step string)) (ref string, err error) {
	if progress == nil {
		progress = func(string) {}
	}
	ref = p.TinyImage()
	unlock, err := p.starting.lock(ctx, "image "+ref)
	if err != nil {
		return ref, fmt.Errorf("make %s: %w", ref, err)
	}
	defer unlock()
	there, err := p.ImageExists(ctx, ref)
	if err != nil || there {
		return ref, err
	}
	progress("pack busybox")
	root, err := tinyRoot(ctx)
	if err != nil {
		return ref, fmt.Errorf("make %s: %w", ref, err)
	}
	progress("import " + ref)
	return ref, p.importTree(ctx, ref, bytes.NewReader(root), createTimeout, "glovebox tiny image", p.tinyChanges())
}

// tinyChanges say how the tiny image runs.
func (p *Provider) tinyChanges() []string {
	return append(p.labelled("glovebox tiny"), "ENV "+tinyPath, `CMD ["/bin/sh"]`, "WORKDIR /workspace")
}

// importTree makes an image of a root tree. The end of ctx breaks off the tree,
// which the engine then refuses; where it had all of it already, the image is
// removed again.
func (p *Provider) importTree(ctx context.Context, ref string, root io.Reader, limit time.Duration, message string, changes []string) error {
	err := p.keepUnless(ctx, ref, func(whole context.Context) error {
		_, err := call(whole, p, "import "+ref, limit, func(limited context.Context) (struct{}, error) {
			source := image.ImportSource{Source: &brokenOff{ctx, root}, SourceName: "-"}
			answer, err := p.engine.ImageImport(limited, source, ref, image.ImportOptions{Message: message, Changes: changes})
			if err != nil {
				return struct{}{}, err
			}
			defer answer.Close()
			return struct{}{}, importResult(answer)
		})
		return err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("import %s: %w", ref, ctx.Err())
	}
	return err
}

// brokenOff is a reader that fails as soon as ctx has ended.
type brokenOff struct {
	ctx context.Context
	io.Reader
}

func (b *brokenOff) Read(buf []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(buf)
}

// importResult reads the engine's stream to its end: a fault comes inside a
// 200 answer.
func importResult(r io.Reader) error {
	lines := json.NewDecoder(r)
	for {
		var line struct{ Error string }
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
	}
}

// staticBusybox finds a busybox that needs no library.
func staticBusybox() (string, error) {
	const advice = "install the package busybox-static, or name another image"
	reason := "there is no busybox on this machine"
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox", "/usr/lib/initramfs-tools/bin/busybox"} {
		file, err := elf.Open(path)
		if err != nil {
			continue
		}
		dynamic := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		file.Close()
		if !dynamic {
			return path, nil
		}
		reason = path + " is not static"
	}
	return "", fmt.Errorf("%s; %s", reason, advice)
}

// tinyRoot returns the root tree of the tiny image as a tar.
func tinyRoot(ctx context.Context) ([]byte, error) {
	busybox, err := staticBusybox()
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	list, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its applets: %w", busybox, err)
	}
	var archive bytes.Buffer
	t := &treeWriter{w: tar.NewWriter(&archive)}
	for _, name := range []string{"bin", "dev", "etc", "home", "opt", "proc", "root", "run", "sbin", "sys", "usr", "usr/bin", "usr/local", "usr/local/bin", "var", "workspace"} {
		t.dir(name, 0o755)
	}
	t.dir("tmp", 0o1777)
	t.dir("var/tmp", 0o1777)
	t.dir("home/glovebox", 0o755)
	t.file("bin/busybox", body, 0o755)
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			t.link(path.Join("bin", applet), "busybox")
		}
	}
	t.link("usr/bin/env", "../../bin/busybox")
	t.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"), 0o644)
	t.file("etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"), 0o644)
	t.file("etc/nsswitch.conf", []byte("hosts: files dns\n"), 0o644)
	t.file("etc/os-release", []byte("NAME=\"glovebox tiny\"\nID=glovebox-tiny\n"), 0o644)
	if err := errors.Join(t.err, t.w.Close()); err != nil {
		return nil, fmt.Errorf("pack the root tree: %w", err)
	}
	return archive.Bytes(), nil
}

// treeWriter writes root-owned entries into a tar and keeps the first error.
type treeWriter struct {
	w   *tar.Writer
	err error
}

func (t *treeWriter) dir(name string, mode int64) {
	t.entry(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (t *treeWriter) link(name, target string) {
	t.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (t *treeWriter) file(name string, body []byte, mode int64) {
	t.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(body))}, body)
}

func (t *treeWriter) entry(h *tar.Header, body []byte) {
	if t.err != nil {
		return
	}
	if t.err = t.w.WriteHeader(h); t.err == nil {
		_, t.err = t.w.Write(body)
	}
}
