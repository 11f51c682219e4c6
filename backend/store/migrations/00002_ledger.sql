-- +goose Up
CREATE TABLE sandboxes (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    root_task_id TEXT NOT NULL, -- no reference: a row is written before anything else is certain
    wall         TEXT NOT NULL,
    ref          TEXT NOT NULL,
    short_id     TEXT NOT NULL,
    workdir      TEXT NOT NULL,
    spec         TEXT NOT NULL,
    state        TEXT NOT NULL,
    cause        TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL
) STRICT;

CREATE INDEX sandboxes_by_root ON sandboxes (root_task_id, id);

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
