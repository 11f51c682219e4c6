package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// glob measures the listing of many files by a pattern, newest first, in one
// request.
func (b *bench) glob(ctx context.Context) {
	files := b.many(10_000, 1_000)
	b.eachWall(ctx, fmt.Sprintf("Glob of %d files", files), func(wall sandbox.Wall) (err error) {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		dir := filepath.Join(s.workspace, "many")
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if err := manyFiles(dir, files); err != nil {
			return err
		}
		values, floors, err := inTurns(b.many(20, 2), func() error {
			r, err := s.env.Glob(ctx, execenv.GlobRequest{Base: s.workdir + "/many", Pattern: "**/*.txt", Limit: files})
			if err == nil && len(r.Files) != files {
				err = fmt.Errorf("%d of %d files were found", len(r.Files), files)
			}
			return err
		}, "find", dir, "-name", "*.txt", "-ls")
		if err != nil {
			return err
		}
		row := Row{What: fmt.Sprintf("Glob of %d files, %s", files, wall), Unit: "ms", Value: millis(values), Floor: millis(floors), FloorIs: "find -name … -ls, outside"}
		if len(floors) == 0 {
			row.FloorIs = "missing: no find"
		}
		b.report(row, noGoal)
		return nil
	})
}

// grep measures the search of much text, against ripgrep over the same files:
// for a pattern that begins with a word, and for one that gives a search nothing
// to jump to, over less text since it is slow everywhere.
func (b *bench) grep(ctx context.Context) {
	b.eachWall(ctx, "Grep", func(wall sandbox.Wall) error {
		return errors.Join(
			b.grepFor(ctx, wall, b.many(1<<30, 32<<20), "a word", `needle-[0-9]+`),
			b.grepFor(ctx, wall, b.many(64<<20, 16<<20), "classes", `[A-Z]{6}[0-9]{4}`),
		)
	})
}

func (b *bench) grepFor(ctx context.Context, wall sandbox.Wall, size int, is, pattern string) (err error) {
	s, err := b.session(ctx, wall)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.workspace, "text")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, total, err := muchText(dir, size)
	if err != nil {
		return err
	}
	values, floors, err := inTurns(b.many(5, 1), func() error {
		r, err := s.env.Grep(ctx, execenv.GrepRequest{Pattern: pattern, Path: s.workdir + "/text", Mode: execenv.GrepContent})
		if err == nil && len(r.Rows) != files { // each file has one such line, its last
			err = fmt.Errorf("%d of %d lines were found", len(r.Rows), files)
		}
		return err
	}, "rg", "--line-number", pattern, dir)
	if err != nil {
		return err
	}
	row := Row{
		What: fmt.Sprintf("Grep of %d MB for %s, %s", total/1e6, is, wall), Unit: "MB/s",
		Value: rates(values, total), Floor: rates(floors, total), FloorIs: "rg, outside",
	}
	if len(floors) == 0 {
		row.FloorIs = "missing: no rg"
		b.report(row, noGoal)
		return nil
	}
	b.report(row, ratioAtLeast(0.7))
	return nil
}

// inTurns does a thing, and runs the program that is its floor, n times in
// turns, and both once before to fill caches. Where the program is not there are
// no floors.
func inTurns(n int, do func() error, program string, args ...string) (values, floors []time.Duration, err error) {
	_, lacks := exec.LookPath(program)
	for i := range n + 1 {
		d, err := timed(do)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			values = append(values, d)
		}
		if lacks != nil {
			continue
		}
		if d, err = timed(exec.Command(program, args...).Run); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", program, err)
		}
		if i > 0 {
			floors = append(floors, d)
		}
	}
	return values, floors, nil
}

func manyFiles(dir string, n int) error {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("dir-%02d", i%100))
		if i < 100 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file-%d.txt", i)), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// muchText writes files of words until they hold size bytes.
func muchText(dir string, size int) (files int, total int64, err error) {
	const fileSize = 16 << 20
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, 0, err
	}
	r := rand.New(rand.NewPCG(1, 2)) // the same text on every machine
	var text bytes.Buffer
	for text.Len() < fileSize {
		for range 4 + r.IntN(12) {
			for range 2 + r.IntN(9) {
				text.WriteByte(byte('a' + r.IntN(26)))
			}
			text.WriteByte(' ')
		}
		text.WriteByte('\n')
	}
	end := text.Len()
	for ; total < int64(size); files++ {
		text.Truncate(end)
		fmt.Fprintf(&text, "needle-%d ABCDEF%04d\n", files, files)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%03d.txt", files)), text.Bytes(), 0o644); err != nil {
			return 0, 0, err
		}
		total += int64(text.Len())
	}
	return files, total, nil
}
