package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"time"
)

// Bounds of a folder that travels inside a request.
const (
	packMax   = 40 << 10 // packed: a relay's event limit is 64 KiB
	packFile  = 8 << 20  // one file, before packing
	packFiles = 2000
)

// packFS makes the same gzipped tar archive of the same files, always: folders,
// regular files and links in order, without times and owners, without .git. A
// file is executable if it is on disk, or begins with "#!".
func packFS(fsys fs.FS) ([]byte, error) {
	var buf bytes.Buffer
	gz, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(gz)
	files := 0
	err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case path == ".":
			return nil
		}
		if files++; files > packFiles {
			return fmt.Errorf("more than %d files", packFiles)
		}
		return packEntry(tw, fsys, path, d)
	})
	if err != nil {
		return nil, err
	}
	if err := firstError(tw.Close(), gz.Close()); err != nil {
		return nil, err
	}
	if buf.Len() > packMax {
		return nil, fmt.Errorf("%d bytes when packed, at most %d fit into a request", buf.Len(), packMax)
	}
	return buf.Bytes(), nil
}

func packEntry(tw *tar.Writer, fsys fs.FS, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: path, Mode: 0o644, Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
	var data []byte
	switch {
	case info.IsDir():
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, path+"/", 0o755
	case info.Mode().IsRegular():
		if info.Size() > packFile {
			return fmt.Errorf("%s is larger than %d bytes", path, packFile)
		}
		if data, err = fs.ReadFile(fsys, path); err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		if info.Mode()&0o100 != 0 || bytes.HasPrefix(data, []byte("#!")) {
			h.Mode = 0o755
		}
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = fs.ReadLink(fsys, path); err != nil {
			return err
		}
	default:
		return nil // sockets and devices do not travel
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = tw.Write(data)
	return err
}
