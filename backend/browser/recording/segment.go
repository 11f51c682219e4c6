package recording

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A segment is a file of records, one after the other:
//
//	4 bytes  "GBR1"
//	4 bytes  length of the head
//	4 bytes  length of the body
//	4 bytes  CRC-32C of the body
//	4 bytes  CRC-32C of the 16 bytes before and of the head
//	         the head: an Entry as JSON
//	         the body: a JPEG, or nothing
//
// Numbers are big-endian. Its name is the number of its first entry. A file ends
// where a record is not whole: that is how a process that was killed leaves it.
const (
	magic      = "GBR1"
	fixed      = 20
	maxHead    = 64 << 10
	maxBody    = 8 << 20
	extension  = ".rec"
	nameDigits = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("the record is not whole")

// segment is one file of a recording.
type segment struct {
	path  string
	first int64
	size  int64
}

func segmentName(first int64) string {
	return fmt.Sprintf("%0*d%s", nameDigits, first, extension)
}

// segments lists the files of a recording, oldest first.
func segments(dir string) ([]*segment, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*segment // ReadDir sorts, and the names have one length
	for _, f := range files {
		number, ok := strings.CutSuffix(f.Name(), extension)
		first, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || first < 1 || f.Name() != segmentName(first) {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, &segment{path: filepath.Join(dir, f.Name()), first: first, size: info.Size()})
	}
	return all, nil
}

// record is an entry and where its body lies.
type record struct {
	Entry
	segment *segment
	offset  int64 // of the body
	length  int64
	sum     uint32
}

// encode returns a record as it is written, and where in it the body begins.
func encode(e Entry, body []byte) (whole []byte, at int, err error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, 0, err
	}
	if len(head) > maxHead || len(body) > maxBody {
		return nil, 0, fmt.Errorf("an entry of %d and a picture of %d bytes: too large to be kept", len(head), len(body))
	}
	b := make([]byte, 0, fixed+len(head)+len(body))
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	b = binary.BigEndian.AppendUint32(b, headSum(b, head))
	b = append(b, head...)
	at = len(b)
	return append(b, body...), at, nil
}

func headSum(front, head []byte) uint32 {
	return crc32.Update(crc32.Checksum(front[:fixed-4], castagnoli), castagnoli, head)
}

// scan reads the records of a segment up to the first that is not whole, and
// returns where that begins. Bodies are passed over, unless body is not nil: then
// each is held against its sum and given to it.
func (s *segment) scan(body func(r record, body []byte)) (records []record, end int64, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	last := s.first - 1
	for {
		r, err := readHead(in)
		r.segment, r.offset = s, end+r.offset
		next := r.offset + r.length
		if err == nil && (r.N <= last || next > s.size) {
			err = errTorn
		}
		switch {
		case err != nil:
		case body != nil:
			b := make([]byte, r.length)
			if err = full(in, b); err == nil && crc32.Checksum(b, castagnoli) != r.sum {
				err = errTorn
			}
			if err == nil {
				body(r, b)
			}
		default:
			_, err = f.Seek(next, io.SeekStart)
			in.Reset(f)
		}
		if errors.Is(err, errTorn) {
			return records, end, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", filepath.Base(s.path), err)
		}
		end, last = next, r.N
		records = append(records, r)
	}
}

// readHead reads a record up to its body. Its offset is from where it begins.
func readHead(in *bufio.Reader) (record, error) {
	front := make([]byte, fixed)
	if err := full(in, front); err != nil {
		return record{}, err
	}
	headSize, bodySize := binary.BigEndian.Uint32(front[4:]), binary.BigEndian.Uint32(front[8:])
	if string(front[:4]) != magic || headSize > maxHead || bodySize > maxBody {
		return record{}, errTorn
	}
	head := make([]byte, headSize)
	if err := full(in, head); err != nil {
		return record{}, err
	}
	r := record{offset: fixed + int64(headSize), length: int64(bodySize), sum: binary.BigEndian.Uint32(front[12:])}
	if headSum(front, head) != binary.BigEndian.Uint32(front[16:]) || json.Unmarshal(head, &r.Entry) != nil {
		return record{}, errTorn
	}
	return r, nil
}

func full(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	return torn(err)
}

// torn tells the end of a file, wherever it is, from a fault of the disk.
func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// read returns the body of a record.
func (r record) read() ([]byte, error) {
	f, err := os.Open(r.segment.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, r.length)
	if _, err := f.ReadAt(b, r.offset); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != r.sum {
		return nil, errTorn
	}
	return b, nil
}
