package tree

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"hash"
)

// copyTo writes to the archive and to a file's hash.
type copyTo struct {
	tw  *tar.Writer
	sum hash.Hash
}

func (c copyTo) Write(b []byte) (int, error) {
	n, err := c.tw.Write(b)
	c.sum.Write(b[:n])
	return n, err
}

// splitter cuts a stream into parts, each compressed by itself.
type splitter struct {
	put  func(part []byte) error
	zw   *gzip.Writer
	part bytes.Buffer
	has  int   // bytes of the stream in this part
	size int64 // of the stream so far
}

func newSplitter(put func(part []byte) error) (*splitter, error) {
	s := &splitter{put: put}
	var err error
	s.zw, err = gzip.NewWriterLevel(&s.part, gzip.BestSpeed)
	return s, err
}

func (s *splitter) Write(b []byte) (int, error) {
	if s.size+int64(len(b)) > MaxBytes {
		return 0, &LimitError{"bytes", MaxBytes}
	}
	for done := 0; done < len(b); {
		n := min(len(b)-done, PartBytes-s.has)
		if _, err := s.zw.Write(b[done : done+n]); err != nil {
			return done, err
		}
		s.has, s.size, done = s.has+n, s.size+int64(n), done+n
		if s.has == PartBytes {
			if err := s.end(); err != nil {
				return done, err
			}
		}
	}
	return len(b), nil
}

// end gives the part away that was begun.
func (s *splitter) end() error {
	if s.has == 0 {
		return nil
	}
	if err := s.zw.Close(); err != nil {
		return err
	}
	err := s.put(s.part.Bytes())
	s.part.Reset()
	s.zw.Reset(&s.part)
	s.has = 0
	return err
}
