package store

// FileName is the database's name, for tests from outside.
const FileName = fileName
