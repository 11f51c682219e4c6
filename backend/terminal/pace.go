//go:build unix

package terminal

import (
	"context"
	"time"
)

// A view is sent as much at once as is kept of a terminal, and in a second more
// than anybody reads, yet so little that a program which prints without end
// keeps neither the view nor who serves it busy.
const (
	paceRate  = 4 << 20          // bytes a second
	paceBurst = ringBytes        // bytes that may go at once after a pause
	paceLeast = 4 << 10          // what a message costs, however short it is
	paceShort = time.Millisecond // not worth a wait
)

// Pace holds back who sends to a view more than it should get. What comes
// meanwhile gathers in larger messages. The zero value is ready.
type Pace struct {
	left float64
	at   time.Time
}

// Spend notes a message of n bytes and waits until the next one may be sent,
// which is not at all as long as there is no flood.
func (p *Pace) Spend(ctx context.Context, n int) error {
	now := time.Now()
	if p.at.IsZero() {
		p.left = paceBurst
	}
	p.left = min(paceBurst, p.left+paceRate*now.Sub(p.at).Seconds()) - float64(max(n, paceLeast))
	p.at = now
	wait := time.Duration(-p.left / paceRate * float64(time.Second))
	if wait < paceShort {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
