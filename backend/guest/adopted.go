//go:build linux

package guest

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// claimTags takes a range of groups that no other guest in this container has.
// The claim is an address in the kernel's own namespace of sockets: it is taken by
// one at a time, leaves no file, and is free again however its holder ends.
func claimTags() (claim net.Listener, first, last int, err error) {
	for i := range wire.SharedTagSlots {
		l, err := net.Listen("unix", fmt.Sprintf("@glovebox-tags-%d", i))
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, 0, 0, fmt.Errorf("claim a range of groups: %w", err)
		}
		first = wire.FirstSharedTag + i*wire.SharedTagCount
		return l, first, first + wire.SharedTagCount - 1, nil
	}
	return nil, 0, 0, fmt.Errorf("%d guests are in this container already: %w", wire.SharedTagSlots, execenv.ErrBusy)
}
