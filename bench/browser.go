package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// slowViewers look on beside one that keeps up.
const slowViewers = 50

// bareClient is the floor of most rows: a browser of this machine with the same
// flags on the same page, whose debugging connection is read by a client that does
// nothing else.
const bareClient = "a bare client of a browser without Glovebox"

// browser measures the view of a sandbox's browser, from a server that is a process
// of its own to a viewer's socket.
func (b *bench) browser(ctx context.Context) {
	const what = "browser"
	if i := slices.IndexFunc(b.walls, func(w httpapi.WallInfo) bool { return w.Wall == sandbox.WallNamespace }); i < 0 || !b.walls[i].Available {
		b.missing(what, "no namespace wall on this machine, in which the browser of this machine is used")
		return
	}
	if chromium() == "" {
		b.missing(what, "no chromium on this machine")
		return
	}
	if err := b.watch(ctx); err != nil {
		b.fault(ctx, what, err)
	}
}

// watched is a session's browser beside a bare one.
type watched struct {
	bench *bench
	site  *site
	srv   *server
	id    string  // of the session
	eye   *viewer // that has control
	bare  *bare
	rate  *Stat // frames per second of eye alone
}

func (b *bench) watch(ctx context.Context) (err error) {
	w := &watched{bench: b}
	if w.site, err = openSite(); err != nil {
		b.missing("browser", err.Error())
		return nil
	}
	defer func() { err = errors.Join(err, w.site.Close()) }()
	if w.srv, err = b.serve(ctx, filepath.Join(b.o.Dir, "browser")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.srv.stop()) }()
	spec := sandbox.Spec{Wall: sandbox.WallNamespace}
	spec.Network.Allow = []string{w.site.hostPort}
	w.id, _, err = openSpec(ctx, w.srv.api, spec)
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, closeSession(clean, w.srv.api, w.id))
	}()
	if err != nil {
		return err
	}
	profile := filepath.Join(b.o.Dir, "bare")
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	if err := w.start(ctx, profile); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.bare.close()) }()
	defer func() { w.eye.close() }()
	for _, row := range []func(context.Context) error{w.painting, w.still, w.late, w.input, w.memory, w.slow, w.release} {
		if err := row(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start measures how long a browser takes until somebody sees it: the first of its
// sandbox, and one that has a profile already. What it leaves open are a viewer
// that has control, and a bare client.
func (w *watched) start(ctx context.Context, profile string) (err error) {
	var cold, warm, coldBare, warmBare []time.Duration
	for i := range w.bench.many(4, 2) {
		if i > 0 {
			w.eye.close()
			if err := errors.Join(w.stopBrowser(ctx), w.bare.close()); err != nil {
				return err
			}
		}
		took, err := timed(func() (err error) {
			if w.bare, err = startBare(ctx, profile); err != nil {
				return err
			}
			_, err = w.bare.next(ctx)
			return err
		})
		if err != nil {
			return errors.Join(fmt.Errorf("start a bare browser: %w", err), w.bare.close())
		}
		seen, err := timed(func() (err error) {
			if w.eye, err = openViewer(ctx, w.srv.api, w.id, "bench"); err != nil {
				return err
			}
			_, err = w.eye.next(ctx)
			return err
		})
		if err != nil {
			return errors.Join(fmt.Errorf("look at a browser: %w", err), w.bare.close())
		}
		if i == 0 {
			cold, coldBare = append(cold, seen), append(coldBare, took)
		} else {
			warm, warmBare = append(warm, seen), append(warmBare, took)
		}
	}
	const floor = bareClient + ", from its exec to its first frame"
	w.bench.report(Row{What: "start of the browser to the first frame, cold", Unit: "ms", Value: millis(cold), Floor: millis(coldBare), FloorIs: floor}, noGoal)
	w.bench.report(Row{What: "start of the browser to the first frame, warm", Unit: "ms", Value: millis(warm), Floor: millis(warmBare), FloorIs: floor}, noGoal)
	return w.eye.ask(ctx, httpapi.BrowserSocket{Type: "take", Seconds: 3600})
}

// stopBrowser ends the sandbox's browser and waits until it is gone.
func (w *watched) stopBrowser(ctx context.Context) error {
	path := "/sessions/" + w.id + "/browser"
	if err := w.srv.api.Call(ctx, "POST", path+"/stop", nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for {
		var info httpapi.BrowserInfo
		if err := w.srv.api.Call(ctx, "GET", path, nil, &info); err != nil {
			return err
		}
		if info.State == wire.BrowserStopped {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the browser is %s: %w", info.State, err)
		}
	}
}

// show opens a page of the site in both browsers. Only one of them gets a page that
// paints at a time.
func (w *watched) show(ctx context.Context, ours, bare string) error {
	return errors.Join(
		w.eye.ask(ctx, httpapi.BrowserSocket{Type: "command", Command: &relay.Command{Kind: relay.Navigate, URL: w.site.url + ours}}),
		w.bare.navigate(ctx, w.site.url+bare),
	)
}

// painting looks on while a page paints, in turns with the bare client.
func (w *watched) painting(ctx context.Context) error {
	span := time.Duration(w.bench.many(5, 2)) * time.Second
	var delays, bareDelays []time.Duration
	var rates, bareRates, serverUse, browserUse, bareUse []float64
	for range w.bench.many(4, 1) {
		if err := w.show(ctx, stillPage, paintPage); err != nil {
			return err
		}
		got, use, err := during(ctx, span, w.bare.next, tree(w.bare.pid()))
		if err != nil {
			return err
		}
		bareDelays, bareRates, bareUse = append(bareDelays, got...), append(bareRates, float64(len(got))/span.Seconds()), append(bareUse, use[0])

		if err := w.show(ctx, paintPage, stillPage); err != nil {
			return err
		}
		got, use, err = during(ctx, span, w.eye.next, only(w.srv.pid()), below(w.srv.pid()))
		if err != nil {
			return err
		}
		delays, rates = append(delays, got...), append(rates, float64(len(got))/span.Seconds())
		serverUse, browserUse = append(serverUse, use[0]), append(browserUse, use[1])
	}
	w.rate = numbers(rates, true)
	report := w.bench.report
	report(Row{What: "frames of a page that paints", Unit: "frames/s", Value: w.rate, Floor: numbers(bareRates, true), FloorIs: bareClient}, noGoal)
	value, floor := millis(delays), millis(bareDelays)
	if value == nil || floor == nil {
		return errors.New("a page that paints gave no frames")
	}
	report(Row{What: "from the paint to the viewer", Unit: "ms", Value: value, Floor: floor, FloorIs: bareClient}, noGoal)
	added := &Stat{N: value.N, Median: value.Median - floor.Median, P95: value.P95 - floor.P95, P99: value.P99 - floor.P99}
	report(Row{What: "of it added by Glovebox", Unit: "ms", Value: added}, p95AtMost(2, "ms"))
	report(Row{What: "processor use of the server meanwhile", Unit: "%", Value: numbers(serverUse, false)}, noGoal)
	report(Row{What: "processor use of sandbox and browser meanwhile", Unit: "%", Value: numbers(browserUse, false), Floor: numbers(bareUse, false), FloorIs: bareClient}, noGoal)
	return nil
}

// still counts what comes of a page that does not change.
func (w *watched) still(ctx context.Context) error {
	if err := w.show(ctx, stillPage, stillPage); err != nil {
		return err
	}
	if err := errors.Join(quiet(ctx, w.eye.next), quiet(ctx, w.bare.next)); err != nil {
		return err
	}
	span := time.Duration(w.bench.many(10, 2)) * time.Second
	ours, bare := w.eye.bytes, w.bare.read.Load()
	if _, _, err := during(ctx, span, w.eye.next); err != nil {
		return err
	}
	w.bench.report(Row{
		What: fmt.Sprintf("bytes of a still page in %v", span), Unit: "B", Value: single(float64(w.eye.bytes - ours)),
		Floor: single(float64(w.bare.read.Load() - bare)), FloorIs: bareClient,
	}, atMost(0, "B"))
	return nil
}

// late measures how long one who comes later waits for the page.
func (w *watched) late(ctx context.Context) error {
	var waits []time.Duration
	for i := range w.bench.many(20, 3) {
		took, err := timed(func() error {
			v, err := openViewer(ctx, w.srv.api, w.id, fmt.Sprintf("late-%d", i))
			if err != nil {
				return err
			}
			defer v.close()
			_, err = v.next(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("a late viewer: %w", err)
		}
		waits = append(waits, took)
	}
	w.bench.report(Row{What: "first frame of a late viewer", Unit: "ms", Value: millis(waits)}, atMost(200, "ms"))
	return nil
}

// input measures from a press of a button until the page that it changed is seen.
func (w *watched) input(ctx context.Context) error {
	if err := w.show(ctx, pressPage, pressPage); err != nil {
		return err
	}
	press := func(next func(context.Context) (time.Duration, error), do func(context.Context, string) error) (time.Duration, error) {
		if err := quiet(ctx, next); err != nil {
			return 0, err
		}
		took, err := timed(func() error {
			if err := do(ctx, "down"); err != nil {
				return err
			}
			_, err := next(ctx)
			return err
		})
		return took, errors.Join(err, do(ctx, "up"))
	}
	var waits, floors []time.Duration
	for range w.bench.many(30, 3) {
		took, err := press(w.bare.next, w.bare.press)
		if err != nil {
			return fmt.Errorf("press a button in a bare browser: %w", err)
		}
		floors = append(floors, took)
		if took, err = press(w.eye.next, w.eye.press); err != nil {
			return fmt.Errorf("press a button: %w", err)
		}
		waits = append(waits, took)
	}
	w.bench.report(Row{What: "from an input to the frame that shows it", Unit: "ms", Value: millis(waits), Floor: millis(floors), FloorIs: bareClient}, noGoal)
	return nil
}

// memory tells what a session with an open page holds.
func (w *watched) memory(ctx context.Context) error {
	ours, err := proportional(below(w.srv.pid())())
	if err != nil {
		return err
	}
	bare, err := proportional(tree(w.bare.pid())())
	if err != nil {
		return err
	}
	w.bench.report(Row{What: "memory of a sandbox with a page in its browser", Unit: "MB", Value: megabytes(ours), Floor: megabytes(bare), FloorIs: "the same browser without Glovebox"}, noGoal)
	return nil
}

// slow puts viewers that lag beside the one that does not.
func (w *watched) slow(ctx context.Context) (err error) {
	if err := w.show(ctx, paintPage, stillPage); err != nil {
		return err
	}
	before, err := residentSize(w.srv.pid())
	if err != nil {
		return err
	}
	crowd, err := openCrowd(ctx, w.srv.api, w.id, slowViewers)
	if err != nil {
		return err
	}
	span := time.Duration(w.bench.many(10, 3)) * time.Second
	got, _, err := during(ctx, span, w.eye.next)
	after, err2 := residentSize(w.srv.pid())
	left, err3 := crowd.close()
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if left < slowViewers {
		return fmt.Errorf("only %d of %d slow viewers were still there", left, slowViewers)
	}
	w.bench.report(Row{
		What: fmt.Sprintf("frames beside %d slow viewers", slowViewers), Unit: "frames/s", Value: single(float64(len(got)) / span.Seconds()),
		Floor: w.rate, FloorIs: "the same viewer alone",
	}, noGoal)
	w.bench.report(Row{What: fmt.Sprintf("memory of the server for %d slow viewers", slowViewers), Unit: "MB", Value: megabytes(max(0, after-before))}, noGoal)
	return nil
}

// release lets go of the sandbox under the viewer's eyes.
func (w *watched) release(ctx context.Context) error {
	if err := w.show(ctx, stillPage, stillPage); err != nil {
		return err
	}
	all, err := below(w.srv.pid())()
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	took, err := timed(func() error {
		if err := w.srv.api.Call(limit, "POST", "/sessions/"+w.id+"/release", httpapi.ReleaseRequest{}, nil); err != nil {
			return fmt.Errorf("release the sandbox: %w", err)
		}
		return w.eye.untilEnd(limit)
	})
	if err != nil {
		return err
	}
	w.bench.report(Row{What: "from a release until its viewers know", Unit: "ms", Value: millis([]time.Duration{took})}, noGoal)
	left := all
	for limit.Err() == nil {
		if left = slices.DeleteFunc(left, func(p proc) bool { return !p.lives() }); len(left) == 0 {
			break
		}
		_ = pause(limit, 50*time.Millisecond) // its end is the loop's
	}
	w.bench.report(Row{What: fmt.Sprintf("processes left of %d after a release", len(all)), Unit: "left", Value: single(float64(len(left)))}, atMost(0, "left"))
	return nil
}

// during takes frames for a time. It returns how old each was when it came, and
// what share of one processor each of the given processes used, in per cent.
func during(ctx context.Context, span time.Duration, next func(context.Context) (time.Duration, error), of ...func() ([]proc, error)) (ages []time.Duration, use []float64, err error) {
	limit, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var used []map[proc]time.Duration
	for _, f := range of {
		all, err := f()
		if err != nil {
			return nil, nil, err
		}
		used = append(used, times(all))
	}
	began := time.Now()
	for {
		age, err := next(limit)
		if limit.Err() != nil {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		ages = append(ages, age)
	}
	took := time.Since(began)
	for _, before := range used {
		var sum time.Duration
		for p, t := range before {
			if now, err := processorTime(p.pid); err == nil {
				sum += now - t
			}
		}
		use = append(use, 100*float64(sum)/float64(took))
	}
	return ages, use, ctx.Err()
}

// quiet waits until no frame has come for a moment.
func quiet(ctx context.Context, next func(context.Context) (time.Duration, error)) error {
	for {
		limit, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
		_, err := next(limit)
		over := limit.Err() != nil
		cancel()
		if over {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// numbers sums up what is no duration. Of a rate the bad side is the low one.
func numbers(vs []float64, low bool) *Stat {
	if len(vs) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(vs), func(a, b float64) int {
		if low {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	return &Stat{N: len(sorted), Median: rank(sorted, 0.5), P95: rank(sorted, 0.95), P99: rank(sorted, 0.99)}
}
