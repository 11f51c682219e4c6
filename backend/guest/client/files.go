package client

import (
	"context"
	"net/http"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

func (c *Client) file(ctx context.Context, path string, caller execenv.Caller, req, res any) error {
	return c.ask(ctx, filesTime, http.MethodPost, path, caller, req, res)
}

// ReadFile reads a piece of a file.
func (c *Client) ReadFile(ctx context.Context, caller execenv.Caller, r execenv.ReadRequest) (res execenv.ReadResult, err error) {
	return res, c.file(ctx, wire.PathRead, caller, r, &res)
}

// WriteFile replaces or makes a file.
func (c *Client) WriteFile(ctx context.Context, caller execenv.Caller, r execenv.WriteRequest) (res execenv.WriteResult, err error) {
	return res, c.file(ctx, wire.PathWrite, caller, r, &res)
}

// EditFile replaces exact text in a file.
func (c *Client) EditFile(ctx context.Context, caller execenv.Caller, r execenv.EditRequest) (res execenv.EditResult, err error) {
	return res, c.file(ctx, wire.PathEdit, caller, r, &res)
}

// Stat describes a path.
func (c *Client) Stat(ctx context.Context, caller execenv.Caller, path string) (res execenv.FileInfo, err error) {
	return res, c.file(ctx, wire.PathStat, caller, wire.PathRequest{Path: path}, &res)
}

// List lists a directory.
func (c *Client) List(ctx context.Context, caller execenv.Caller, path string) (res execenv.ListResult, err error) {
	return res, c.file(ctx, wire.PathList, caller, wire.PathRequest{Path: path}, &res)
}

// Change changes a directory's entries.
func (c *Client) Change(ctx context.Context, caller execenv.Caller, r execenv.ChangeRequest) error {
	return c.file(ctx, wire.PathChange, caller, r, nil)
}

// Glob finds files by a pattern.
func (c *Client) Glob(ctx context.Context, caller execenv.Caller, r execenv.GlobRequest) (res execenv.GlobResult, err error) {
	return res, c.file(ctx, wire.PathGlob, caller, r, &res)
}

// Grep searches contents.
func (c *Client) Grep(ctx context.Context, caller execenv.Caller, r execenv.GrepRequest) (res execenv.GrepResult, err error) {
	return res, c.file(ctx, wire.PathGrep, caller, r, &res)
}

// Snapshot lists trees with selected contents.
func (c *Client) Snapshot(ctx context.Context, caller execenv.Caller, r execenv.SnapshotRequest) (res execenv.SnapshotResult, err error) {
	return res, c.file(ctx, wire.PathSnapshot, caller, r, &res)
}
