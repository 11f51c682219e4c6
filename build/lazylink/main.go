// Lazylink changes a program that was linked against shared libraries so that it
// starts where only the C library is there, and can say itself what is missing:
//
//	go run ./build/lazylink PROGRAM
//
// It takes every other library off the list that the dynamic linker loads at the
// start, and makes the symbols that came from them weak. Such a program must not
// call into them before it has loaded them; see app/webview_linux.go.
package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lazylink PROGRAM")
		os.Exit(2)
	}
	if err := loosen(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "lazylink: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// Sizes and offsets in 64-bit ELF files, from the System V gABI.
const (
	dynSize = 16
	symSize = 24
	symInfo = 4 // st_info: binding in the high half, type in the low one
)

func loosen(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return fmt.Errorf("not a 64-bit little-endian program")
	}
	dynamic, symbols := f.SectionByType(elf.SHT_DYNAMIC), f.SectionByType(elf.SHT_DYNSYM)
	if dynamic == nil || symbols == nil {
		return fmt.Errorf("not dynamically linked")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := forget(f, b[dynamic.Offset:dynamic.Offset+dynamic.Size]); err != nil {
		return err
	}
	undefined, err := f.DynamicSymbols() // leaves out the null symbol at 0
	if err != nil {
		return err
	}
	for i, s := range undefined {
		if s.Section != elf.SHN_UNDEF || s.Library != "" { // versioned ones are the C library's
			continue
		}
		info := &b[symbols.Offset+uint64(i+1)*symSize+symInfo]
		*info = elf.ST_INFO(elf.STB_WEAK, elf.ST_TYPE(*info))
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, info.Mode())
}

// forget takes the needed libraries but the C library out of a dynamic section.
func forget(f *elf.File, section []byte) error {
	names, err := f.DynString(elf.DT_NEEDED) // in the order of the entries
	if err != nil {
		return err
	}
	var kept []byte
	for at := 0; at < len(section); at += dynSize {
		entry := section[at : at+dynSize]
		if elf.DynTag(binary.LittleEndian.Uint64(entry)) == elf.DT_NEEDED {
			name := names[0]
			names = names[1:]
			if !strings.HasPrefix(name, "libc.so") {
				continue
			}
		}
		kept = append(kept, entry...)
	}
	clear(section[copy(section, kept):]) // DT_NULL ends the list
	return nil
}
