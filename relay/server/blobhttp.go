package server

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// transferTimeout bounds one upload or download.
const transferTimeout = 5 * time.Minute

const defaultType = "application/octet-stream"

// descriptor is the answer to an upload (BUD-02).
type descriptor struct {
	URL      string `json:"url"`
	SHA256   string `json:"sha256"`
	Size     int64  `json:"size"`
	Type     string `json:"type"`
	Uploaded int64  `json:"uploaded"`
}

// mayUpload checks the authorization of an upload, before its body is read, and
// returns the hash that it announces. Otherwise it has answered.
func (s *Server) mayUpload(w http.ResponseWriter, r *http.Request, now time.Time) (auth blobAuth, announced string, ok bool) {
	auth, err := authorize(r, "upload", hostNames(s.cfg.PublicURL, localAddress(r)), now)
	if err != nil {
		reject(w, http.StatusUnauthorized, err.Error())
		return blobAuth{}, "", false
	}
	if auth.room == "" && !s.cfg.mayUpload(auth.pubkey) {
		reject(w, http.StatusForbidden, errAuthUploader.Error())
		return blobAuth{}, "", false
	}

	announced, err = announcedHash(r)
	if err == nil && announced != "" && !auth.allows(announced) {
		err = errBlobHash
	}
	if err != nil {
		s.rejectBlob(w, err)
		return blobAuth{}, "", false
	}
	return auth, announced, true
}

// serveAsk says whether an upload of X-Content-Length bytes would be taken (BUD-06).
func (s *Server) serveAsk(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	auth, announced, ok := s.mayUpload(w, r, now)
	if !ok {
		return
	}
	size, err := strconv.ParseUint(r.Header.Get("X-Content-Length"), 10, 62)
	switch {
	case err != nil:
		err = errBlobLength
	case int64(size) > s.cfg.Limits.MaxBlobBytes:
		err = errBlobTooLarge
	case auth.room != "":
		address := s.cfg.clientOf(r)
		_, err = s.rooms.ask(r.Context(), intoRoom{
			id: auth.room, key: auth.pubkey, address: address, rooms: s.cfg.Limits.perAddress(address), hash: announced, size: int64(size),
		}, now)
	default:
		err = s.blobs.fitsDisk(int64(size))
	}

	if err != nil {
		s.rejectBlob(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	control := http.NewResponseController(w)

	// A refused upload may be read to its end by the server.
	_ = control.SetReadDeadline(now.Add(uploadStall))
	auth, announced, ok := s.mayUpload(w, r, now)
	if !ok {
		return
	}
	u := &upload{
		key: auth.pubkey, address: s.cfg.clientOf(r),
		end: now.Add(transferTimeout), deadline: control.SetReadDeadline, body: r.Body,
	}
	if err := s.uploads.begin(u, now); err != nil {
		s.rejectBlob(w, err)
		return
	}
	defer s.uploads.finish(u)

	var n blob
	var fresh bool
	var err error
	if auth.room != "" {
		in := intoRoom{
			id: auth.room, key: auth.pubkey, address: u.address, rooms: s.cfg.Limits.perAddress(u.address),
			hash: announced, mime: contentType(r), size: r.ContentLength,
		}
		n, fresh, err = s.rooms.put(r.Context(), in, u, now)
	} else {
		n, fresh, err = s.blobs.put(r.Context(), auth, announced, contentType(r), u, r.ContentLength)
	}
	if err != nil {
		s.rejectBlob(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if fresh {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(descriptor{
		URL:      s.blobURL(r, n.hash) + extensionOf(n.mime),
		SHA256:   n.hash,
		Size:     n.size,
		Type:     n.mime,
		Uploaded: n.uploaded,
	})
}

// contentType keeps a well-formed media type; it becomes a header again.
func contentType(r *http.Request) string {
	t := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(t)
	if err != nil || len(t) > 200 {
		return defaultType
	}
	if t = mime.FormatMediaType(media, params); t == "" {
		return defaultType
	}
	return t
}

// announcedHash is the blob's hash as the client announces it, "" if it does not.
func announcedHash(r *http.Request) (string, error) {
	hash := strings.ToLower(strings.TrimSpace(r.Header.Get("X-SHA-256")))
	if hash != "" && !nostr.IsValid32ByteHex(hash) {
		return "", errBlobHeader
	}
	return hash, nil
}

// extensions are the file extensions of the media types that jobs use. The system's
// table is not used, because it differs between machines.
var extensions = map[string]string{
	"application/gzip":     ".gz",
	"application/json":     ".json",
	"application/jsonl":    ".jsonl",
	"application/pdf":      ".pdf",
	"application/wasm":     ".wasm",
	"application/x-ndjson": ".jsonl",
	"application/x-tar":    ".tar",
	"application/zip":      ".zip",
	"audio/mpeg":           ".mp3",
	"audio/ogg":            ".ogg",
	"audio/wav":            ".wav",
	"image/gif":            ".gif",
	"image/jpeg":           ".jpg",
	"image/png":            ".png",
	"image/svg+xml":        ".svg",
	"image/webp":           ".webp",
	"text/css":             ".css",
	"text/csv":             ".csv",
	"text/html":            ".html",
	"text/javascript":      ".js",
	"text/markdown":        ".md",
	"text/plain":           ".txt",
	"video/mp4":            ".mp4",
	"video/webm":           ".webm",
}

// extensionOf is the extension of a blob's URL, by which clients recognise its type.
func extensionOf(mediaType string) string {
	media, _, _ := strings.Cut(mediaType, ";")
	if ext, ok := extensions[media]; ok {
		return ext
	}
	return ".bin"
}

func (s *Server) blobURL(r *http.Request, hash string) string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL + "/" + hash
	}
	return "http://" + r.Host + "/" + hash
}

// blobHash reads the hash of a path <sha256>[.ext].
func blobHash(r *http.Request) (string, bool) {
	hash, ext, dotted := strings.Cut(r.PathValue("blob"), ".")
	if dotted && (ext == "" || len(ext) > 32) {
		return "", false
	}
	return hash, nostr.IsValid32ByteHex(hash)
}

func (s *Server) serveBlob(w http.ResponseWriter, r *http.Request) {
	hash, ok := blobHash(r)
	if !ok {
		reject(w, http.StatusNotFound, errBlobUnknown.Error())
		return
	}
	n, body, err := s.blobs.open(r.Context(), hash)
	if err != nil {
		s.rejectBlob(w, err)
		return
	}
	defer body.Close()

	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTimeout))
	h := w.Header()
	h.Set("Content-Type", n.mime)
	h.Set("ETag", `"`+hash+`"`)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")

	// Blobs are untrusted documents, so browsers must not run their scripts.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	http.ServeContent(w, r, "", time.Time{}, body)
}

func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) {
	hash, ok := blobHash(r)
	if !ok {
		reject(w, http.StatusNotFound, errBlobUnknown.Error())
		return
	}
	auth, err := authorize(r, "delete", hostNames(s.cfg.PublicURL, localAddress(r)), time.Now())
	if err != nil {
		reject(w, http.StatusUnauthorized, err.Error())
		return
	}
	if !auth.allows(hash) {
		reject(w, http.StatusForbidden, errBlobHash.Error())
		return
	}
	if err := s.blobs.remove(r.Context(), auth.pubkey, hash); err != nil {
		s.rejectBlob(w, err)
		return
	}

	w.WriteHeader(http.StatusNoContent)
}

// serveOpenRoom opens a room for a provider, or prolongs its life.
func (s *Server) serveOpenRoom(w http.ResponseWriter, r *http.Request) {
	auth, ok := s.authorizeRoom(w, r)
	if !ok {
		return
	}
	want := reservation{id: auth.room, owner: auth.pubkey, most: s.rooms.all}
	if !s.cfg.isNamed(auth.pubkey) {
		want.most = s.blobs.room.each
	}
	number := func(name string) int64 {
		tag := auth.event.Tags.Find(name)
		if tag == nil {
			return 0
		}
		n, _ := strconv.ParseUint(tag[1], 10, 62) // 0 is out of bounds too
		return int64(n)
	}
	want.bytes, want.blobs = number("bytes"), number("blobs")
	if tag := auth.event.Tags.Find("p"); tag != nil {
		want.uploader = tag[1]
	}
	if !nostr.IsValid32ByteHex(want.uploader) {
		reject(w, http.StatusBadRequest, "a room is for the key in the p tag, of 64 hex digits")
		return
	}

	fresh, err := s.rooms.open(r.Context(), want, time.Now())
	switch {
	case err != nil:
		s.rejectBlob(w, err)
	case fresh:
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// serveCloseRoom closes a room and removes what is in it. One that is not open is
// closed.
func (s *Server) serveCloseRoom(w http.ResponseWriter, r *http.Request) {
	auth, ok := s.authorizeRoom(w, r)
	if !ok {
		return
	}
	if err := s.rooms.close(r.Context(), auth.pubkey, auth.room); err != nil {
		s.rejectBlob(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// authorizeRoom checks that somebody who may open rooms speaks of the one that the address
// names.
func (s *Server) authorizeRoom(w http.ResponseWriter, r *http.Request) (blobAuth, bool) {
	auth, err := authorize(r, verbsOfRooms[r.Method], hostNames(s.cfg.PublicURL, localAddress(r)), time.Now())
	switch {
	case err != nil:
		reject(w, http.StatusUnauthorized, err.Error())
	case auth.room == "" || auth.room != r.PathValue("room"):
		reject(w, http.StatusUnauthorized, "the authorization event is for another room")
	case !s.cfg.mayUpload(auth.pubkey):
		reject(w, http.StatusForbidden, "rooms are opened and closed by keys that the operator has named")
	default:
		return auth, true
	}
	return blobAuth{}, false
}

// verbsOfRooms are the actions of authorizations, by method.
var verbsOfRooms = map[string]string{http.MethodPut: "room", http.MethodDelete: "close"}

func (s *Server) rejectBlob(w http.ResponseWriter, err error) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{errUploadsBusy, http.StatusServiceUnavailable},
		{errUploadSlow, http.StatusRequestTimeout},
		{errBlobTooLarge, http.StatusRequestEntityTooLarge},
		{errBlobsFull, http.StatusInsufficientStorage},
		{errBlobsOfKey, http.StatusInsufficientStorage},
		{errBlobHash, http.StatusForbidden},
		{errBlobHeader, http.StatusBadRequest},
		{errBlobLength, http.StatusLengthRequired},
		{errBlobOther, http.StatusConflict},
		{errBlobUnknown, http.StatusNotFound},
		{errNotOwner, http.StatusForbidden},
		{errDiskFull, http.StatusInsufficientStorage},
		{errRoomUnknown, http.StatusNotFound},
		{errRoomOther, http.StatusConflict},
		{errRoomKey, http.StatusForbidden},
		{errRoomFull, http.StatusRequestEntityTooLarge},
		{errRoomBounds, http.StatusBadRequest},
		{errRoomLength, http.StatusLengthRequired},
		{errRoomsFull, http.StatusInsufficientStorage},
		{errRoomsOfKey, http.StatusInsufficientStorage},
		{errRoomsOfOpener, http.StatusInsufficientStorage},
		{errRoomsOfHost, http.StatusInsufficientStorage},
	} {
		if errors.Is(err, c.err) {
			reject(w, c.status, c.err.Error())
			return
		}
	}

	if sqlite.IsFull(err) {
		reject(w, http.StatusInsufficientStorage, errDiskFull.Error())
		return
	}
	s.cfg.Log.Warn("blob request", "error", err)
	reject(w, http.StatusInternalServerError, "the blob could not be transferred")
}

// reject sends the reason both as a header and as JSON, for old and new Blossom
// clients.
func reject(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("X-Reason", reason)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": reason})
}
