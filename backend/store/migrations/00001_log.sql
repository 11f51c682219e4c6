-- +goose Up
CREATE TABLE roots (
    id         TEXT    PRIMARY KEY,
    title      TEXT    NOT NULL,
    model      TEXT    NOT NULL,
    workspace  TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    updated_at TEXT    NOT NULL,
    seq        INTEGER NOT NULL DEFAULT 0, -- of the last event of the tree
    generation INTEGER NOT NULL DEFAULT 0  -- the fence
) STRICT;

CREATE TABLE tasks (
    id      TEXT    PRIMARY KEY,
    root_id TEXT    NOT NULL REFERENCES roots (id),
    ended   INTEGER NOT NULL DEFAULT 0 CHECK (ended IN (0, 1))
) STRICT;

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE events (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    root_task_id TEXT    NOT NULL REFERENCES roots (id),
    task_id      TEXT    NOT NULL REFERENCES tasks (id),
    kind         TEXT    NOT NULL,
    at           TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    body         TEXT,                         -- a small body
    blob         TEXT    REFERENCES blobs (hash), -- or the name of a large one
    CHECK ((body IS NULL) <> (blob IS NULL))
) STRICT;

CREATE INDEX events_by_root ON events (root_task_id, seq);
CREATE INDEX events_by_task ON events (task_id, seq);
CREATE INDEX events_by_blob ON events (blob) WHERE blob IS NOT NULL;
