package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one number beside its floor. Of Value, Missing and Error one is set.
type Row struct {
	Type    string   `json:"type"` // "row"
	Name    string   `json:"name"` // of the measurement
	What    string   `json:"what"`
	Unit    string   `json:"unit"` // ms, MB/s, frames/s, MB, B, %, left
	Value   *Stat    `json:"value"`
	Floor   *Stat    `json:"floor"`    // in the same unit
	FloorIs string   `json:"floor_is"` // what was done for it
	Ratio   *float64 `json:"ratio"`    // of the medians
	Goal    string   `json:"goal"`
	Met     *bool    `json:"met"`     // null without a goal
	Missing string   `json:"missing"` // why it was not measured
	Error   string   `json:"error"`
}

// Stat sums up repetitions by nearest rank. P95 and P99 are on the bad side:
// for a rate, what 95 and 99 of 100 repetitions reached.
type Stat struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
}

// goal is what a row should reach.
type goal struct {
	text string
	met  func(r *Row) bool
}

var noGoal goal

func ratioAtMost(limit float64) goal {
	text := fmt.Sprintf("≤ %.3g ×", limit)
	if limit < 1 {
		text = fmt.Sprintf("≤ 1/%.0f", 1/limit)
	}
	return goal{text, func(r *Row) bool { return r.Ratio != nil && *r.Ratio <= limit }}
}

func ratioAtLeast(limit float64) goal {
	return goal{fmt.Sprintf("≥ %.3g ×", limit), func(r *Row) bool { return r.Ratio != nil && *r.Ratio >= limit }}
}

func atMost(limit float64, unit string) goal {
	return goal{fmt.Sprintf("≤ %.3g %s", limit, unit), func(r *Row) bool { return r.Value.Median <= limit }}
}

func atLeast(limit float64, unit string) goal {
	return goal{fmt.Sprintf("≥ %.3g %s", limit, unit), func(r *Row) bool { return r.Value.Median >= limit }}
}

func p99AtMost(limit float64, unit string) goal {
	return goal{fmt.Sprintf("p99 ≤ %.4g %s", limit, unit), func(r *Row) bool { return r.Value.P99 <= limit }}
}

func p95AtMost(limit float64, unit string) goal {
	return goal{fmt.Sprintf("p95 ≤ %.4g %s", limit, unit), func(r *Row) bool { return r.Value.P95 <= limit }}
}

func (r *Row) finish(g goal) {
	if r.Floor != nil && r.Floor.Median > 0 {
		ratio := r.Value.Median / r.Floor.Median
		r.Ratio = &ratio
	}
	if g.met != nil {
		met := g.met(r)
		r.Goal, r.Met = g.text, &met
	}
}

// millis sums up durations in milliseconds.
func millis(ds []time.Duration) *Stat {
	return stat(ds, func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) })
}

// rates sums up durations that each moved some bytes, in MB/s.
func rates(ds []time.Duration, bytes int64) *Stat {
	return stat(ds, func(d time.Duration) float64 { return float64(bytes) / 1e6 / d.Seconds() })
}

func stat(ds []time.Duration, convert func(time.Duration) float64) *Stat {
	sorted := slices.Sorted(slices.Values(ds))
	if len(sorted) == 0 {
		return nil
	}
	at := func(q float64) float64 { return convert(rank(sorted, q)) }
	return &Stat{N: len(sorted), Median: at(0.5), P95: at(0.95), P99: at(0.99)}
}

// rank is the value that a share q of all reaches, by nearest rank.
func rank[T any](sorted []T, q float64) T {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// single is a number that was read once.
func single(v float64) *Stat { return &Stat{N: 1, Median: v, P95: v, P99: v} }

// megabytes is single for a size.
func megabytes(bytes int64) *Stat { return single(float64(bytes) / 1e6) }

// Table gathers rows for people.
type Table struct{ rows []Row }

// Add appends a row.
func (t *Table) Add(r Row) { t.rows = append(t.rows, r) }

// Print writes the rows, and under them what stands in for those without a number.
func (t *Table) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEDIAN\tP95\tP99\tN\tFLOOR\tRATIO\tGOAL\tMET\tTHE FLOOR IS")
	var notes []string
	for _, r := range t.rows {
		if r.Value == nil {
			verdict := map[bool]string{true: "missing", false: "error"}[r.Error == ""]
			notes = append(notes, fmt.Sprintf("%s: %s: %s", r.What, verdict, cmp.Or(r.Error, r.Missing)))
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\t\t\t\n", r.What, verdict)
			continue
		}
		floor, ratio, met := "", "", ""
		if r.Floor != nil {
			floor = number(r.Floor.Median)
		}
		if r.Ratio != nil {
			ratio = fmt.Sprintf("%.3g ×", *r.Ratio)
		}
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "no"}[*r.Met]
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.What,
			number(r.Value.Median), r.Unit, tail(r.Value, r.Value.P95, 2), tail(r.Value, r.Value.P99, 100), r.Value.N,
			floor, ratio, r.Goal, met, r.FloorIs)
	}
	if err := w.Flush(); err != nil || len(notes) == 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(notes, "\n"))
	return err
}

// tail shows a percentile where there are enough repetitions for one.
func tail(s *Stat, v float64, least int) string {
	if s.N < least {
		return ""
	}
	return number(v)
}

// number has three digits that count.
func number(v float64) string {
	switch {
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Lines returns a Report that writes each row as a line of JSON.
func Lines(out io.Writer) func(Row) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return func(r Row) { _ = e.Encode(r) } // a reader that went away ends us by SIGPIPE
}
