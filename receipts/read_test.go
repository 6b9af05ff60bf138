package receipts

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// bundleFiles are the files of every published vector, by name.
func bundleFiles(t testing.TB) map[string][][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/vectors/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	files := map[string][][]byte{}
	for _, name := range names {
		var v struct {
			Files map[string]string `json:"files"`
		}
		doc, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(doc, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range v.Files {
			files[file] = append(files[file], []byte(text))
		}
	}
	return files
}

// sameDocument holds the short way of reading a document against the long one,
// which only the receipt of an engagement fee needs: one name out of its place
// would make the verifier slower, and nothing else would show it.
func sameDocument[T document, P interface {
	*T
	read(*hashing.Reader)
}](t *testing.T, doc []byte) {
	t.Helper()
	got, err := readDocument[T, P]("document", doc, keyring{})
	want, wantErr := parseDocument[T]("document", doc)
	if !reflect.DeepEqual(got, want) || !sameError(err, wantErr) {
		t.Fatalf("%q:\nread   %+v, %v\nparsed %+v, %v", doc, got, err, want, wantErr)
	}
	in := hashing.NewReader(doc)
	if P(new(T)).read(in); err == nil && !in.Done() && !bytes.Contains(doc, []byte(`"purpose":"engagement"`)) {
		t.Fatalf("%q is read the long way", doc)
	}
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

func sameEvent(t *testing.T, doc []byte) {
	t.Helper()
	got, err := readEvent(doc)
	want, wantErr := ParseEvent(doc, maxDocument)
	in := hashing.NewReader(doc)
	if new(Event).read(in); got.exact && !in.Done() {
		t.Fatalf("%q is read the long way", doc)
	}
	if !reflect.DeepEqual(got.Event, want) || !sameError(err, wantErr) || got.exact != (err == nil && string(want.JSON()) == string(doc)) {
		t.Fatalf("%q:\nread   %+v, %v\nparsed %+v, %v", doc, got, err, want, wantErr)
	}
	if got.exact && got.escapedID != want.computeID(true) {
		t.Fatalf("%q: the id is read as %s, and is %s", doc, got.escapedID, want.computeID(true))
	}
}

func TestReadingIsParsing(t *testing.T) {
	files := bundleFiles(t)
	for _, doc := range append(files[FileReceipt], files[FilePrevious]...) {
		sameDocument[Receipt](t, doc)
	}
	for _, doc := range files[FileQuote] {
		sameDocument[Quote](t, doc)
	}
	for _, doc := range files[FileSeal] {
		sameDocument[Seal](t, doc)
	}
	for _, name := range []string{FileReceiptEvent, FileRequest, FileResultEvent, FileAcceptance} {
		for _, doc := range files[name] {
			sameEvent(t, doc)
		}
	}
	for _, doc := range files[FileAcceptance] {
		if ev, err := ParseEvent(doc, maxDocument); err == nil {
			sameDocument[Acceptance](t, []byte(ev.Content))
		}
	}
}

func FuzzReadDocument(f *testing.F) {
	files := bundleFiles(f)
	for _, name := range []string{FileReceipt, FileQuote, FileSeal, FileRequest, FileResultEvent, FileAcceptance} {
		for _, doc := range files[name][:min(8, len(files[name]))] {
			f.Add(doc)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		sameDocument[Receipt](t, doc)
		sameDocument[Quote](t, doc)
		sameDocument[Acceptance](t, doc)
		sameDocument[Seal](t, doc)
		sameEvent(t, doc)
	})
}
